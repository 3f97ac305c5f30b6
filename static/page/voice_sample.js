import { CallError } from '../client/errors.js';
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
  #audio = new Audio();
  #isPlaying = false;

  /**
   * @param {{button: HTMLButtonElement, label: HTMLElement, voice: HTMLSelectElement}} elements
   * @param {{api: import('../client/api.js').Api, notices: import('./notices.js').Notices, conversation: import('./conversation.js').Conversation}} parts
   */
  constructor({ button, label, voice }, { api, notices, conversation }) {
    this.#button = button;
    this.#label = label;
    this.#voice = voice;
    this.#api = api;
    this.#notices = notices;
    button.addEventListener('click', () => (this.#isPlaying ? this.#stop() : this.#play()));
    voice.addEventListener('change', () => this.#stop());
    this.#audio.addEventListener('ended', () => this.#stop());
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
    this.#isPlaying = true;
    this.#draw();
    const { value } = this.#voice;
    try {
      // Not by the element itself, which cannot send the key.
      const sample = await this.#api.blob(path);
      if (!this.#isPlaying || value !== this.#voice.value) return;
      this.#audio.src = URL.createObjectURL(sample);
      await this.#audio.play();
    } catch (error) {
      if (!this.#isPlaying) return; // stopped meanwhile, which is what rejects `play`
      this.#stop();
      this.#notices.show(messages.trouble(error instanceof CallError ? error : { message: String(error) }), 'error');
    }
  }

  #stop() {
    this.#isPlaying = false;
    this.#audio.pause();
    if (this.#audio.src) URL.revokeObjectURL(this.#audio.src);
    this.#audio.removeAttribute('src');
    this.#draw();
  }

  #draw() {
    this.#button.hidden = !Object.hasOwn(this.#samples, this.#voice.value);
    this.#button.setAttribute('aria-pressed', String(this.#isPlaying));
    this.#label.textContent = this.#isPlaying ? strings.voiceSample.stop : strings.voiceSample.play;
  }
}
