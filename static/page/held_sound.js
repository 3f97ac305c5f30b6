import * as messages from './messages.js';

/** A finger on the glass is no gesture before it leaves it, and iOS tells of no click on what cannot be pressed. */
const GESTURES = ['pointerup', 'click', 'keydown'];

/** A browser that holds back the sound until it sees a gesture: the page says so, and tries with each until it sounds. */
export class HeldSound {
  #conversation;
  #notices;
  #target;
  /** @type {AbortController | null} */
  #waiting = null;

  /**
   * @param {Pick<import('./conversation.js').Conversation, 'on' | 'resumeSound'>} conversation
   * @param {Pick<import('./notices.js').Notices, 'show' | 'hide'>} notices
   * @param {EventTarget} [target] Where gestures are heard of.
   */
  constructor(conversation, notices, target = globalThis) {
    this.#conversation = conversation;
    this.#notices = notices;
    this.#target = target;
    conversation.on('problem', ({ code }) => code === 'sound_blocked' && this.#hold());
  }

  /** The sound may be allowed now. */
  async resume() {
    if (!(await this.#conversation.resumeSound())) return;
    this.#waiting?.abort();
    this.#waiting = null;
    this.#notices.hide('sound');
  }

  #hold() {
    this.#notices.show(messages.trouble({ code: 'sound_blocked' }), 'sound');
    if (this.#waiting) return;
    this.#waiting = new AbortController();
    const { signal } = this.#waiting;
    for (const type of GESTURES) this.#target.addEventListener(type, () => this.resume(), { capture: true, signal });
  }
}
