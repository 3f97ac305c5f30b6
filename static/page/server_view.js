import { CallError } from '../client/errors.js';
import { strings } from './language.js';
import * as messages from './messages.js';

/**
 * What the page knows of the server: its engine, device and free slots, asked for again and again while nobody talks.
 *
 * @typedef {import('../client/api.js').ServerConfig} ServerConfig
 */

const EVERY_MS = 10_000;
const AFTER_GOODBYE_MS = 700;
/** What is said of a call that got no answer stays for so long at least. */
const READ_MS = 5_000;

export class ServerView {
  /** @type {ServerConfig | null} */
  config = null;
  #api;
  #elements;
  #notices;
  #conversation;
  #onConfig;
  #onBack;
  /** Runs while what is said of a call that got no answer is being read. @type {ReturnType<typeof setTimeout> | null} */
  #readTimer = null;

  /**
   * @param {object} parts
   * @param {import('../client/api.js').Api} parts.api
   * @param {import('./notices.js').Notices} parts.notices
   * @param {import('./conversation.js').Conversation} parts.conversation
   * @param {(config: ServerConfig) => void} parts.onConfig
   * @param {() => void} parts.onBack A server that gave a call no answer gives one now.
   * @param {Record<'engine' | 'name' | 'kind' | 'device' | 'slots' | 'summary', HTMLElement>} elements
   */
  constructor({ api, notices, conversation, onConfig, onBack }, elements) {
    this.#api = api;
    this.#notices = notices;
    this.#conversation = conversation;
    this.#onConfig = onConfig;
    this.#onBack = onBack;
    this.#elements = elements;
    // How many slots are free has changed; after a call, a moment later than its goodbye.
    conversation.on('state', () => {
      const { phase } = conversation.call;
      if (phase === 'live') this.refresh();
      if (phase === 'ended' || phase === 'failed') setTimeout(() => this.refresh(), AFTER_GOODBYE_MS);
    });
    conversation.on('problem', (problem) => messages.kindOf(problem) === 'server' && this.#onProblem(problem.code));
    setInterval(() => {
      if (!conversation.call.isActive && document.visibilityState === 'visible') this.refresh();
    }, EVERY_MS);
    document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && this.refresh());
  }

  /** @returns {Promise<boolean>} Whether the server answers. */
  async refresh() {
    let config;
    try {
      config = await this.#api.config();
    } catch (error) {
      const problem = error instanceof CallError ? error : new CallError('failed', String(error));
      this.#drawDown(problem.code);
      if (this.#conversation.call.isActive || this.#notices.isShown) return false; // what is said already says more
      this.#notices.show(messages.trouble(problem), 'server');
      return false;
    }
    this.config = config;
    this.#draw(config);
    this.#onConfig(config);
    this.#tell(config.connectivity);
    return true;
  }

  /** @param {ServerConfig['connectivity']} reach */
  #tell(reach) {
    const notices = this.#notices;
    if (notices.kind === 'server' && this.#readTimer !== null) return;
    if (reach && !reach.ok) {
      if (!notices.isShown || notices.kind === 'server') notices.show(messages.noConnectivity(reach.message), 'server');
    } else if (notices.kind === 'server') {
      notices.hide('server');
      if (this.#conversation.call.phase === 'failed') this.#onBack();
    }
  }

  /** A call got no answer: the badge need not wait for the next question. @param {string} code */
  #onProblem(code) {
    this.#drawDown(code);
    if (this.#readTimer !== null) clearTimeout(this.#readTimer);
    this.#readTimer = setTimeout(() => {
      this.#readTimer = null;
      if (!this.#conversation.call.isActive) this.refresh();
    }, READ_MS);
  }

  /** @param {string} code */
  #drawDown(code) {
    this.#elements.engine.dataset.health = 'down';
    this.#elements.slots.textContent = code === 'server_unreachable' ? strings.noAnswer : '';
  }

  /** @param {ServerConfig} config */
  #draw({ engine: { name, device, summary }, slots }) {
    this.#elements.engine.dataset.health = slots.free > 0 ? 'free' : 'full';
    this.#elements.name.textContent = name;
    this.#elements.name.title = summary;
    this.#elements.kind.textContent = Object.hasOwn(strings.engineKinds, name) ? strings.engineKinds[name] : '';
    this.#elements.device.textContent = messages.deviceName(device);
    this.#elements.slots.textContent = messages.slotsFree(slots);
    this.#elements.summary.textContent = summary;
  }
}
