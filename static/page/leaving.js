/**
 * What becomes of a call when its page goes away. The client keeps it for a page that comes back, and the next page in this
 * tab can go on with it; where nobody can, it ends at once: the server would keep the slot for nobody.
 */
export class Leaving {
  #parts;

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
      if (!this.#put()) conversation.end({ atOnce: true });
    });
    around.window.addEventListener('pageshow', (event) => {
      if (/** @type {PageTransitionEvent} */ (event).persisted) this.#takeBack();
    });
    around.document.addEventListener('visibilitychange', () => {
      if (around.document.visibilityState === 'hidden') this.#put();
      else this.#takeBack();
    });
  }

  /** @returns {boolean} Whether the next page can go on with the call. */
  #put() {
    const { conversation, left } = this.#parts;
    const call = conversation.handOver();
    const isKept = this.#handOver(call ?? left.call);
    return call !== null && isKept;
  }

  /** What others could take lies in the tab only while nobody sees the page. */
  #takeBack() {
    this.#handOver(null);
  }

  /** @param {import('./handover.js').HandedOver | null} call */
  #handOver(call) {
    const { handover, keptS, epochMs = Date.now } = this.#parts;
    return handover.put(call, epochMs(), keptS());
  }
}
