import { strings } from './language.js';
import * as messages from './messages.js';

/**
 * A call that the server or the network has ended is made again by itself, as soon as the server answers: the person is
 * still there, has allowed the microphone, and waits. It is a new conversation, and the page says so. One that is refused
 * for now is made again until the time is up.
 */

const ASK_EVERY_MS = 2_000;
const GIVE_UP_MS = 90_000;
/** Ends that nobody wanted, after which another call may well succeed. */
const BROKEN = new Set([
  'connection_lost', 'session_not_found', 'server_stopping', 'shutdown', 'engine_lost', 'engine_failed', 'internal_error',
]);
/** Why another attempt may succeed where one has failed; so may one after a proxy's 5xx. */
const PASSING = new Set([
  ...BROKEN, 'engine_full', 'at_capacity', 'engine_draining', 'engine_unavailable', 'too_many_half_open',
  'server_unreachable', 'bad_answer', 'internal', 'ice_failed', 'dtls_failed',
]);

export class Redial {
  #conversation;
  #server;
  #notices;
  #dial;
  #isBusy;
  #clock;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #untilMs = -Infinity;
  /** Why the call broke that is to be made again. */
  #reason = '';
  /** One broken call is made again; one that breaks before the agent could be talked to only if it is one of ours. */
  #wasLive = false;
  /** Whether the call is one of ours, until the agent can be talked to. */
  #isOurs = false;

  /**
   * @param {object} parts
   * @param {import('./conversation.js').Conversation} parts.conversation
   * @param {{refresh: () => Promise<boolean>, config: import('../client/api.js').ServerConfig | null}} parts.server
   * @param {Pick<import('./notices.js').Notices, 'show' | 'hide'>} parts.notices
   * @param {() => void} parts.dial Start a call for a person who has pressed nothing.
   * @param {() => boolean} parts.isBusy Whether the person is at something that a call would take away.
   * @param {() => number} [parts.clock] Milliseconds, monotone.
   */
  constructor({ conversation, server, notices, dial, isBusy, clock = () => performance.now() }) {
    this.#conversation = conversation;
    this.#server = server;
    this.#notices = notices;
    this.#dial = dial;
    this.#isBusy = isBusy;
    this.#clock = clock;
    conversation.on('client', () => {
      this.#wasLive = false;
    });
    conversation.on('state', () => {
      if (conversation.call.phase === 'live') {
        if (this.#isOurs) notices.show(strings.redial.again, 'warning');
        this.#wasLive = true;
        this.#isOurs = false;
      }
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
    const wasOurs = this.#isOurs;
    this.#isOurs = false;
    if (!BROKEN.has(reason) || !(wasOurs || this.#wasLive)) return false;
    if (!wasOurs) {
      this.#reason = reason;
      this.#untilMs = this.#clock() + GIVE_UP_MS;
    }
    return this.#wait();
  }

  /**
   * A call could not be made, or something is wrong in it. Says so, if it is one of ours and is going to be made again.
   *
   * @param {{code: string}} problem
   * @returns {boolean} Whether it is.
   */
  failed({ code }) {
    if (!this.#isOurs || this.#conversation.call.isActive) return false;
    this.#isOurs = false;
    return (PASSING.has(code) || code.startsWith('http_5')) && this.#wait();
  }

  /** @returns {boolean} Whether there is time left. */
  #wait() {
    if (this.#clock() >= this.#untilMs) return false;
    this.#say(strings.redial.waiting);
    this.#timer = setTimeout(() => this.#ask(), ASK_EVERY_MS);
    return true;
  }

  /** @param {string} text */
  #say(text) {
    const stop = { label: strings.redial.stop, press: () => this.#giveUp() };
    this.#notices.show({ title: messages.farewell(this.#reason).title, text }, 'redial', stop);
  }

  async #ask() {
    const isThere = (await this.#server.refresh()) && (this.#server.config?.slots.free ?? 0) > 0;
    if (this.#timer === undefined) return; // stopped meanwhile
    if (isThere && !this.#isBusy()) return this.#callAgain();
    if (this.#clock() >= this.#untilMs) return this.#giveUp();
    this.#say(isThere ? strings.redial.busy : strings.redial.waiting);
    this.#timer = setTimeout(() => this.#ask(), ASK_EVERY_MS);
  }

  #callAgain() {
    this.#stop();
    this.#isOurs = true;
    this.#notices.hide('redial');
    this.#dial();
  }

  #giveUp() {
    this.#stop();
    this.#notices.show(messages.farewell(this.#reason), 'error');
  }

  #stop() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
