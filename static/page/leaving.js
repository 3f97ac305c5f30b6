/**
 * What becomes of a call when its page goes away. The client keeps it for a page that comes back, and the next page in this
 * tab can go on with it; where nobody can, it ends at once: the server would keep the slot for nobody.
 */
export class Leaving {
  #parts;
  /** Whether the page is gone. It is told that it is hidden after that, when there may be no call any more. */
  #hasLeft = false;

  /**
   * @param {object} parts
   * @param {Pick<import('./conversation.js').Conversation, 'handOver' | 'end'>} parts.conversation
   * @param {import('./handover.js').Handover} parts.handover
   * @param {Pick<import('./left_call.js').LeftCall, 'call'>} parts.left
   * @param {() => number | undefined} parts.keptS How long the server keeps a call.
   * @param {() => number} [parts.epochMs]
   * @param {{window: EventTarget, document: EventTarget & {visibilityState: string}}} [around] The browser, or a test's.
   */
  constructor(parts, around = globalThis) {
    this.#parts = parts;
    const { conversation } = parts;
    around.window.addEventListener('pagehide', () => {
      this.#hasLeft = true;
      if (!this.#put()) conversation.end({ atOnce: true });
    });
    around.window.addEventListener('pageshow', (event) => {
      this.#hasLeft = false;
      if (/** @type {PageTransitionEvent} */ (event).persisted) this.#takeBack();
    });
    around.document.addEventListener('visibilitychange', () => {
      if (around.document.visibilityState !== 'hidden') this.#takeBack();
      else if (!this.#hasLeft) this.#put();
    });
  }

  /** @returns {boolean} Whether the next page can go on with the call. */
  #put() {
    const { conversation, left } = this.#parts;
    const call = conversation.handOver();
    if (!left.call) return this.#handOver(call);
    // The server's time for it has begun already.
    return this.#handOver({ ...(call ?? left.call), untilMs: left.call.untilMs });
  }

  /** What others could take lies in the tab only while nobody sees the page. */
  #takeBack() {
    this.#handOver(null);
  }

  /** @param {(import('./handover.js').HandedOver & {untilMs?: number}) | null} call */
  #handOver(call) {
    const { handover, keptS, epochMs = Date.now } = this.#parts;
    return handover.put(call, epochMs(), keptS());
  }
}
