/**
 * A call that outlives its page: what a page that goes away, to be reloaded perhaps, hands over to the next one in the
 * same tab.
 *
 * It lies in the tab's storage only while the page cannot be seen. So a tab that is duplicated does not take the call
 * from the one that is in use, and it is good only as long as the server keeps the call.
 *
 * @typedef {object} HandedOver
 * @property {import('../client.js').Resumption} resumption
 * @property {import('../client/transcript.js').KeptTurn[]} turns The last ones.
 * @property {number} [left] How many were said before them.
 * @property {number} durationMs
 * @property {number} [beganAgoMs] Since the first call of those whose words are here; longer than this one where it was made
 *   again.
 * @property {boolean} muted
 * @property {Record<import('./turntaking.js').Kind, number>} [counts] What happened between the two voices.
 */

const STORAGE_KEY = 'rtc_server.call';
/** A server keeps a call so long for a page that was reloaded, if it says nothing else. */
export const KEPT_S = 10;

export class Handover {
  #storage;

  /** @param {Pick<Storage, 'getItem' | 'setItem' | 'removeItem'> | null} storage Null where the browser forbids storage. */
  constructor(storage) {
    this.#storage = storage;
  }

  /**
   * @param {(HandedOver & {untilMs?: number}) | null} call Null: there is no call to go on with. `untilMs`: of one that was
   *   not taken up here.
   * @param {number} epochMs `Date.now()`: it goes on from one page to the next.
   * @param {number} [keptS] How long the server keeps it.
   * @returns {boolean} Whether it lies there now.
   */
  put(call, epochMs, keptS = KEPT_S) {
    try {
      if (call) this.#storage?.setItem(STORAGE_KEY, JSON.stringify({ untilMs: epochMs + keptS * 1000, ...call }));
      else this.#storage?.removeItem(STORAGE_KEY);
      return call !== null && this.#storage !== null;
    } catch {
      return false; // full or forbidden
    }
  }

  /**
   * Take it out: nobody else gets it.
   *
   * @param {number} epochMs
   * @returns {(HandedOver & {untilMs: number}) | null} Good until `untilMs`; null where there is none, or it is too old.
   */
  take(epochMs) {
    try {
      const call = JSON.parse(this.#storage?.getItem(STORAGE_KEY) ?? 'null');
      this.#storage?.removeItem(STORAGE_KEY);
      return typeof call?.resumption?.token === 'string' && epochMs < call.untilMs ? call : null;
    } catch {
      return null;
    }
  }
}
