import { strings } from './language.js';
import * as messages from './messages.js';

/**
 * A call that the server or the network has ended is made again by itself, as soon as the server answers: the person is
 * still there, has allowed the microphone, and waits. It is a new conversation, and the page says so.
 */

const ASK_EVERY_MS = 2_000;
const GIVE_UP_MS = 90_000;
/** Ends that nobody wanted, after which another call may well succeed. */
const BROKEN = new Set([
  'connection_lost', 'session_not_found', 'server_stopping', 'shutdown', 'engine_lost', 'engine_failed', 'internal_error',
]);

export class Redial {
  #conversation;
  #server;
  #notices;
  #dial;
  #clock;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #untilMs = -Infinity;
  /** One broken call is made again; one that breaks before the agent could be talked to is not. */
  #wasLive = false;

  /**
   * @param {object} parts
   * @param {import('./conversation.js').Conversation} parts.conversation
   * @param {{refresh: () => Promise<boolean>, config: import('../client/api.js').ServerConfig | null}} parts.server
   * @param {Pick<import('./notices.js').Notices, 'show' | 'hide'>} parts.notices
   * @param {() => void} parts.dial Start a call as the button does.
   * @param {() => number} [parts.clock] Milliseconds, monotone.
   */
  constructor({ conversation, server, notices, dial, clock = () => performance.now() }) {
    this.#conversation = conversation;
    this.#server = server;
    this.#notices = notices;
    this.#dial = dial;
    this.#clock = clock;
    conversation.on('client', () => {
      this.#wasLive = false;
    });
    conversation.on('state', () => {
      if (conversation.call.phase === 'live') this.#wasLive = true;
      if (conversation.call.isActive) this.#stop(); // somebody was quicker
    });
  }

  /**
   * A call has ended. Says so, if it is going to be made again.
   *
   * @param {string} reason
   * @returns {boolean} Whether it is.
   */
  begin(reason) {
    if (!this.#wasLive || !BROKEN.has(reason)) return false;
    this.#untilMs = this.#clock() + GIVE_UP_MS;
    const { title } = messages.farewell(reason);
    const stop = { label: strings.redial.stop, press: () => this.#giveUp(reason) };
    this.#notices.show({ title, text: strings.redial.waiting }, 'redial', stop);
    this.#timer = setTimeout(() => this.#ask(reason), ASK_EVERY_MS);
    return true;
  }

  /** @param {string} reason */
  async #ask(reason) {
    const isThere = (await this.#server.refresh()) && (this.#server.config?.slots.free ?? 0) > 0;
    if (this.#timer === undefined) return; // stopped meanwhile
    if (isThere) {
      this.#stop();
      this.#dial();
      this.#notices.show(strings.redial.again, 'warning');
    } else if (this.#clock() >= this.#untilMs) {
      this.#giveUp(reason);
    } else {
      this.#timer = setTimeout(() => this.#ask(reason), ASK_EVERY_MS);
    }
  }

  /** @param {string} reason */
  #giveUp(reason) {
    this.#stop();
    this.#notices.show(messages.farewell(reason), 'error');
  }

  #stop() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
