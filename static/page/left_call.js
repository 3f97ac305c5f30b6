/**
 * The call that the page before this one has left, as long as it can be taken up: until it is live here, its caller ends
 * it, the server knows it no more, or keeps it no longer. An attempt that fails otherwise, for want of a microphone say,
 * can be repeated.
 *
 * @typedef {import('./handover.js').HandedOver & {untilMs: number}} Left
 */
export class LeftCall {
  /** @type {Left | null} */
  call;
  #onGone;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /**
   * @param {import('./conversation.js').Conversation} conversation
   * @param {Left | null} call
   * @param {{epochMs: number, onGone: () => void}} options `epochMs`: now, as in `untilMs`.
   */
  constructor(conversation, call, { epochMs, onGone }) {
    this.call = call;
    this.#onGone = onGone;
    if (!call) return;
    this.#timer = setTimeout(() => this.#forget(), call.untilMs - epochMs);
    conversation.on('state', () => {
      const { phase } = conversation.call;
      if (phase === 'live' || phase === 'ended') this.#forget();
    });
    conversation.on('problem', ({ code }) => code === 'session_not_found' && this.#forget());
  }

  #forget() {
    clearTimeout(this.#timer);
    if (!this.call) return;
    this.call = null;
    this.#onGone();
  }
}
