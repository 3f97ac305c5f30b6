/**
 * Keeps the screen awake while a call is on: a phone that goes to sleep takes the microphone away. Browsers take the
 * lock back whenever the page is not seen, so it is asked for again.
 *
 * @typedef {{request: (type: 'screen') => Promise<WakeLockSentinel>}} Locks
 */
export class WakeLock {
  #wakeLock;
  #conversation;
  /** @type {WakeLockSentinel | null} */
  #held = null;
  #isAsking = false;

  /**
   * @param {import('./conversation.js').Conversation} conversation
   * @param {{wakeLock?: Locks, page?: Document}} [environment]
   */
  constructor(conversation, { wakeLock = globalThis.navigator?.wakeLock, page = document } = {}) {
    this.#wakeLock = wakeLock;
    this.#conversation = conversation;
    conversation.on('state', () => this.#follow(page));
    page.addEventListener('visibilitychange', () => this.#follow(page));
  }

  /** @param {Document} page */
  async #follow(page) {
    const isWanted = () => this.#conversation.call.isActive && page.visibilityState === 'visible';
    if (!isWanted()) return this.#release();
    if (!this.#wakeLock || this.#isAsking || (this.#held && !this.#held.released)) return;
    this.#isAsking = true;
    // Refused on a low battery, say: then the screen sleeps as it always does.
    this.#held = await this.#wakeLock.request('screen').catch(() => null);
    this.#isAsking = false;
    if (!isWanted()) this.#release();
  }

  #release() {
    this.#held?.release().catch(() => {});
    this.#held = null;
  }
}
