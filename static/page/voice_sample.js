import { CallError } from '../client/errors.js';
import { Clip } from './clip.js';
import { strings } from './language.js';
import * as messages from './messages.js';

/** A button that plays how the chosen voice sounds, where the server has a sample of it. */
export class VoiceSample {
  #button;
  #label;
  #voice;
  #api;
  #notices;
  /** Paths by voice. @type {Record<string, string>} */
  #samples = {};
  #clip;
  /** Told from a press before it; null while nothing is to be heard. @type {object | null} */
  #press = null;

  /**
   * @param {{button: HTMLButtonElement, label: HTMLElement, voice: HTMLSelectElement}} elements
   * @param {object} parts
   * @param {Pick<import('../client/api.js').Api, 'blob'>} parts.api
   * @param {Pick<import('./notices.js').Notices, 'show'>} parts.notices
   * @param {import('./conversation.js').Conversation} parts.conversation
   * @param {(onEnd: () => void) => Pick<Clip, 'unlock' | 'play' | 'stop'>} parts.makeClip
   */
  constructor({ button, label, voice }, { api, notices, conversation, makeClip }) {
    this.#button = button;
    this.#label = label;
    this.#voice = voice;
    this.#api = api;
    this.#notices = notices;
    this.#clip = makeClip(() => this.#stop());
    button.addEventListener('click', () => (this.#press ? this.#stop() : this.#play()));
    voice.addEventListener('change', () => this.#stop());
    conversation.on('state', () => conversation.call.isActive && this.#stop()); // the agent would hear it
    this.#draw();
  }

  /** @param {import('../client/api.js').EngineInfo} engine */
  offer({ voice_samples: samples = {} }) {
    this.#samples = samples;
    this.#draw();
  }

  async #play() {
    const path = this.#samples[this.#voice.value];
    if (!path) return;
    const press = {};
    this.#press = press;
    this.#draw();
    this.#clip.unlock();
    try {
      // Not by the element itself, which cannot send the key.
      const sample = await this.#api.blob(path);
      if (press === this.#press) await this.#clip.play(sample);
    } catch (error) {
      if (press !== this.#press) return; // stopped meanwhile, which is what rejects `play`
      this.#stop();
      const problem = error instanceof CallError ? error : new CallError('failed', String(error));
      this.#notices.show(messages.trouble(problem), messages.kindOf(problem));
    }
  }

  #stop() {
    this.#press = null;
    this.#clip.stop();
    this.#draw();
  }

  #draw() {
    this.#button.hidden = !Object.hasOwn(this.#samples, this.#voice.value);
    this.#button.setAttribute('aria-pressed', String(this.#press !== null));
    this.#label.textContent = this.#press ? strings.voiceSample.stop : strings.voiceSample.play;
  }
}
