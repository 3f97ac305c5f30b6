import { CallError } from '../client/errors.js';
import * as messages from './messages.js';

/**
 * What the page knows of the server: its engine, device and free slots, asked for again and again while nobody talks.
 *
 * @typedef {import('../client/api.js').ServerConfig} ServerConfig
 */

const EVERY_MS = 10_000;
const AFTER_GOODBYE_MS = 700;

export class ServerView {
  /** @type {ServerConfig | null} */
  config = null;
  #api;
  #elements;
  #notices;
  #conversation;
  #onConfig;

  /**
   * @param {object} parts
   * @param {import('../client/api.js').Api} parts.api
   * @param {import('./notices.js').Notices} parts.notices
   * @param {import('./conversation.js').Conversation} parts.conversation
   * @param {(config: ServerConfig) => void} parts.onConfig
   * @param {Record<'engine' | 'name' | 'device' | 'slots' | 'summary', HTMLElement>} elements
   */
  constructor({ api, notices, conversation, onConfig }, elements) {
    this.#api = api;
    this.#notices = notices;
    this.#conversation = conversation;
    this.#onConfig = onConfig;
    this.#elements = elements;
    // How many slots are free has changed; after a call, a moment later than its goodbye.
    conversation.on('state', () => {
      const { phase } = conversation.call;
      if (phase === 'live') this.refresh();
      if (phase === 'ended' || phase === 'failed') setTimeout(() => this.refresh(), AFTER_GOODBYE_MS);
    });
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
      this.#elements.engine.dataset.health = 'down';
      if (this.#conversation.call.isActive || this.#notices.isShown) return false; // what is said already says more
      this.#notices.show(messages.trouble(error instanceof CallError ? error : { message: String(error) }), 'server');
      return false;
    }
    this.config = config;
    this.#draw(config);
    this.#onConfig(config);
    this.#notices.hide('server');
    const reach = config.connectivity;
    if (reach && !reach.ok && !this.#notices.isShown) this.#notices.show(messages.noConnectivity(reach.message), 'server');
    return true;
  }

  /** @param {ServerConfig} config */
  #draw({ engine: { name, device, summary }, slots }) {
    this.#elements.engine.dataset.health = slots.free > 0 ? 'free' : 'full';
    this.#elements.name.textContent = name;
    this.#elements.device.textContent = messages.deviceName(device);
    this.#elements.slots.textContent = messages.slotsFree(slots);
    this.#elements.summary.textContent = summary;
  }
}
