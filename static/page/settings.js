import { Advanced } from './advanced.js';
import { strings } from './language.js';
import { emptySetup, readAddress, request, writeAddress } from './setup.js';

/**
 * What the person chooses before a call. The address has all of it, so that a link reproduces it; this browser keeps it
 * for the next visit without one.
 *
 * @typedef {object} SettingsElements
 * @property {HTMLDetailsElement} root
 * @property {HTMLTextAreaElement} persona
 * @property {HTMLElement} note What a persona does with this engine.
 * @property {HTMLSelectElement} voice
 * @property {HTMLElement} count
 * @property {HTMLElement} presets
 * @property {HTMLFieldSetElement} fields
 * @property {HTMLDetailsElement} advanced
 * @property {HTMLElement} numbers Where the fields of `advanced` go.
 */

const STORAGE_KEY = 'rtc_server.settings';

export class Settings {
  #elements;
  #advanced;
  #storage;
  #maxChars = 0;
  /** A voice of the address or of the last visit, as long as the server has not said which ones there are. */
  #wantedVoice = '';

  /**
   * @param {SettingsElements} elements
   * @param {Storage | null} storage
   * @param {import('./conversation.js').Conversation} conversation
   */
  constructor(elements, storage, conversation) {
    this.#elements = elements;
    this.#storage = storage;
    this.#advanced = new Advanced({ root: elements.advanced, numbers: elements.numbers }, () => this.#changed());
    this.#follow(conversation);
    this.#drawPresets();
    this.#take(readAddress(location.hash) ?? this.#load());
    elements.persona.addEventListener('input', () => this.#changed());
    elements.voice.addEventListener('change', () => this.#changed());
    addEventListener('hashchange', () => {
      const setup = readAddress(location.hash);
      if (setup && !elements.fields.disabled) this.#take(setup);
    });
  }

  /** @param {import('../client/api.js').ServerConfig} config */
  offer({ engine, limits }) {
    const { persona, note, voice } = this.#elements;
    this.#maxChars = engine.max_persona_chars ?? 0;
    if (this.#maxChars) persona.maxLength = this.#maxChars;
    if (engine.default_persona) persona.placeholder = engine.default_persona;
    note.textContent = engine.persona_note ?? '';
    note.hidden = !engine.persona_note;
    const chosen = voice.value || this.#wantedVoice;
    voice.replaceChildren(...engine.voices.map((name) => new Option(name, name)));
    const known = engine.voices.includes(chosen);
    voice.value = known ? chosen : (engine.default_voice ?? engine.voices[0] ?? '');
    voice.disabled = engine.voices.length < 2;
    this.#advanced.offer(engine.sampling ?? null, limits?.max_seed);
    this.#drawCount();
  }

  /** The words of the call need the room. */
  close() {
    this.#elements.root.open = false;
  }

  /** What `connect` takes. */
  chosen() {
    return request(this.#setup(), this.#advanced.ranges);
  }

  /** @returns {import('./setup.js').Setup} */
  #setup() {
    const { persona, voice } = this.#elements;
    return { persona: persona.value, voice: voice.value || this.#wantedVoice, ...this.#advanced.typed };
  }

  /** @param {import('./setup.js').Setup} setup */
  #take({ persona, voice, seed, sampling }) {
    this.#elements.persona.value = persona;
    this.#wantedVoice = voice;
    if ([...this.#elements.voice.options].some(({ value }) => value === voice)) this.#elements.voice.value = voice;
    this.#advanced.take({ seed, sampling });
    this.#drawCount();
  }

  /**
   * A call's set-up is settled when it starts. Once the agent is there its words need the room; a call that fails leaves
   * the choices in sight.
   *
   * @param {import('./conversation.js').Conversation} conversation
   */
  #follow(conversation) {
    let settled = false;
    conversation.on('state', () => {
      const { isActive, phase } = conversation.call;
      this.#elements.fields.disabled = isActive;
      if (phase === 'live' && !settled) this.close();
      settled = isActive && (settled || phase === 'live');
    });
  }

  #changed() {
    this.#drawCount();
    const setup = this.#setup();
    history.replaceState(history.state, '', location.pathname + location.search + writeAddress(setup, location.hash));
    try {
      this.#storage?.setItem(STORAGE_KEY, JSON.stringify(setup));
    } catch {
      // full or forbidden: the choice holds for this page only
    }
  }

  /** @returns {import('./setup.js').Setup} */
  #load() {
    const setup = emptySetup();
    try {
      const kept = JSON.parse(this.#storage?.getItem(STORAGE_KEY) ?? '{}');
      for (const name of /** @type {const} */ (['persona', 'voice', 'seed'])) setup[name] = String(kept[name] ?? '');
      for (const name of /** @type {import('./setup.js').SamplingName[]} */ (Object.keys(setup.sampling))) {
        setup.sampling[name] = String(kept.sampling?.[name] ?? '');
      }
    } catch {
      // forbidden, or written by somebody else
    }
    return setup;
  }

  #drawCount() {
    const { persona, count, presets } = this.#elements;
    const { length } = persona.value;
    count.textContent = this.#maxChars ? `${length} / ${this.#maxChars}` : String(length);
    count.classList.toggle('over', this.#maxChars > 0 && length >= this.#maxChars);
    for (const button of presets.querySelectorAll('button')) {
      button.setAttribute('aria-pressed', String(button.dataset.text === persona.value));
    }
  }

  #drawPresets() {
    for (const { name, text } of strings.personas) {
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'chip';
      button.textContent = name;
      button.dataset.text = text;
      button.addEventListener('click', () => {
        const { persona } = this.#elements;
        persona.value = persona.value === text ? '' : text;
        this.#changed();
      });
      this.#elements.presets.append(button);
    }
  }
}
