import { CallError } from './errors.js';

/**
 * Gets a call going again, by itself: first by a new way for the old connection (an ICE restart, during which not a
 * packet is lost where the old way still works), then by a new connection that takes the conversation over, and at last
 * it gives up with a reason. One attempt at a time; between them it waits longer and longer, unless the network is
 * reported to be back.
 *
 * @typedef {object} Ways
 * @property {((timeoutMs: number) => Promise<void>)} restart Rejects with a `CallError` where it failed.
 * @property {(() => Promise<void>)} resume The same. `session_not_found`: the conversation is over.
 * @property {() => boolean} canRestart Whether there is a connection to be restarted.
 * @property {() => boolean} canResume
 * @property {() => boolean} isOnline False only where the browser knows that there is no network.
 * @property {() => Promise<number>} packets How many were received so far over the present connection.
 *
 * @typedef {object} Outcomes
 * @property {() => void} trouble Nothing comes through.
 * @property {() => void} recovered
 * @property {(reason: string) => void} lost
 */

/** The server lets a caller go 30 s after its last sign of life. */
export const GIVE_UP_MS = 30_000;
/** The first answer is waited for only so long: what it is asked over may be the way that broke. */
const ANSWER_MS = [2_000, 4_000];
const PAUSES_MS = [0, 500, 1_000, 2_000, 4_000];
const RESTARTS = 2;
/** After an answer, sound has to come within this time. */
const SOUND_MS = 3_000;
const LOOK_EVERY_MS = 100;
/** Errors that no further attempt can mend. */
const FINAL = new Set(['session_not_found', 'unauthorized', 'forbidden_origin', 'unsupported_offer']);

export class Reconnector {
  #ways;
  #outcomes;
  /** @type {Promise<void> | null} */
  #running = null;
  #stopped = false;
  #announced = false;
  /** Ends the pause between two attempts. @type {() => void} */
  #wake = () => {};

  /**
   * @param {Ways} ways
   * @param {Outcomes} outcomes
   */
  constructor(ways, outcomes) {
    this.#ways = ways;
    this.#outcomes = outcomes;
  }

  get isBusy() {
    return this.#running !== null;
  }

  /**
   * Something is wrong, or may be.
   *
   * @param {{precaution?: boolean}} [options] `precaution`: the network is another one, and sound may still come; trouble
   *   is told only if it does not.
   */
  check({ precaution = false } = {}) {
    if (this.#stopped) return;
    if (!precaution) this.#announce();
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
  }

  /** The network is back: no need to wait. */
  hurry() {
    this.#wake();
  }

  /** The call is over: nothing is told any more. */
  stop() {
    this.#stopped = true;
    this.#wake();
  }

  async #run() {
    const untilMs = performance.now() + GIVE_UP_MS;
    let restarts = 0;
    const leftMs = () => untilMs - performance.now();
    for (let attempt = 0; leftMs() > 0; attempt++) {
      await this.#pause(Math.min(PAUSES_MS[Math.min(attempt, PAUSES_MS.length - 1)], leftMs()));
      while (!this.#ways.isOnline() && leftMs() > 0 && !this.#stopped) {
        this.#announce();
        await this.#pause(leftMs());
      }
      if (this.#stopped) return;
      if (leftMs() <= 0) break;
      const restart = this.#ways.canRestart() && (restarts < RESTARTS || !this.#ways.canResume());
      if (!restart && !this.#ways.canResume()) break;
      try {
        const answerMs = ANSWER_MS[Math.min(restarts, ANSWER_MS.length - 1)];
        restarts += Number(restart);
        await within(leftMs(), restart ? this.#ways.restart(Math.min(answerMs, leftMs())) : this.#ways.resume());
        if (await this.#soundComes(Math.min(SOUND_MS, leftMs()))) return this.#recover();
      } catch (error) {
        const { code, status } = error instanceof CallError ? error : { code: 'failed', status: 0 };
        if (this.#stopped) return;
        if (FINAL.has(code) && (!restart || !this.#ways.canResume())) return this.#giveUp(code);
        if (status > 0) restarts = RESTARTS; // the server will not have it: another restart changes nothing
      }
      this.#announce();
    }
    this.#giveUp('connection_lost');
  }

  /** @param {number} forMs */
  async #soundComes(forMs) {
    const untilMs = performance.now() + forMs;
    const before = await this.#ways.packets();
    while (performance.now() < untilMs && !this.#stopped) {
      await this.#pause(LOOK_EVERY_MS);
      if ((await this.#ways.packets()) > before) return true;
    }
    return false;
  }

  /** @param {number} ms */
  #pause(ms) {
    if (this.#stopped || ms <= 0) return Promise.resolve();
    return new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #announce() {
    if (this.#announced || this.#stopped) return;
    this.#announced = true;
    this.#outcomes.trouble();
  }

  #recover() {
    this.#announced = false;
    if (!this.#stopped) this.#outcomes.recovered();
  }

  /** @param {string} reason */
  #giveUp(reason) {
    if (!this.#stopped) this.#outcomes.lost(reason);
  }
}

/**
 * @param {number} ms
 * @param {Promise<void>} attempt It may go on behind our back: its outcome does not count any more.
 * @returns {Promise<void>}
 */
function within(ms, attempt) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new CallError('cancelled', 'there was no more time')), ms);
    attempt.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
