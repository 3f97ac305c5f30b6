import { Advanced, write } from './advanced.js';
import { strings } from './language.js';
import { chars, emptySetup, link, missing, readAddress, request, writeAddress } from './setup.js';

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
 * @property {HTMLElement} told What the server cannot do of it.
 */

const STORAGE_KEY = 'rtc_server.settings';
/** Of a name that nobody knows. */
const SHOWN_CHARS = 40;

export class Settings {
  #elements;
  #advanced;
  #storage;
  #maxChars = 0;
  /** Of the address, of the last visit, or chosen here; the server may not have it. */
  #wantedVoice = '';
  /** Whether the numbers are those of a link. */
  #isLinked = false;
  /** @type {import('../client/api.js').EngineInfo | null} */
  #engine = null;
  #onChange;

  /**
   * @param {SettingsElements} elements
   * @param {Storage | null} storage
   * @param {import('./conversation.js').Conversation} conversation
   * @param {() => void} onChange The person has changed something.
   */
  constructor(elements, storage, conversation, onChange) {
    this.#elements = elements;
    this.#onChange = onChange;
    this.#storage = storage;
    this.#advanced = new Advanced({ root: elements.advanced, numbers: elements.numbers }, () => this.#changed());
    this.#follow(conversation);
    this.#drawPresets();
    const linked = readAddress(location.hash);
    this.#isLinked = linked !== null;
    this.#take(linked ?? this.#load());
    elements.persona.addEventListener('input', () => this.#changed());
    elements.voice.addEventListener('change', () => {
      this.#wantedVoice = elements.voice.value;
      this.#changed();
    });
    addEventListener('hashchange', () => {
      const setup = readAddress(location.hash);
      if (!setup || elements.fields.disabled) return;
      this.#isLinked = true;
      this.#take(setup);
    });
  }

  /**
   * What has not changed is left as it is: a list may be open, and a screen reader reads out what is written anew.
   *
   * @param {import('../client/api.js').ServerConfig} config
   */
  offer({ engine, limits }) {
    const { persona, note, voice } = this.#elements;
    this.#maxChars = engine.max_persona_chars ?? 0;
    this.#engine = engine;
    if (engine.default_persona) persona.placeholder = engine.default_persona;
    write(note, engine.persona_note ?? '');
    note.hidden = !engine.persona_note;
    const { voices } = engine;
    const isSame = voices.length === voice.length && voices.every((name, index) => voice.options[index].value === name);
    if (!isSame) voice.replaceChildren(...voices.map((name) => new Option(name, name)));
    this.#pickVoice(engine);
    voice.disabled = voices.length < 2;
    this.#advanced.offer(engine.sampling ?? null, limits?.max_seed);
    this.#drawCount();
    this.#tell();
  }

  /** An address of it all. */
  get link() {
    return link(this.#setup(), location);
  }

  /** Why no call can be started with what is chosen; null where it can. @returns {import('./messages.js').Message | null} */
  get problem() {
    const length = chars(this.#elements.persona.value);
    return !this.#maxChars || length <= this.#maxChars ? null : strings.personaTooLong(length, this.#maxChars);
  }

  /** Why no call can be made with it, and where; null where one can. @returns {import('../strings/en.js').Message | null} */
  check() {
    const { problem } = this;
    if (problem) {
      this.#elements.root.open = true;
      this.#elements.persona.focus();
    }
    return problem;
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
    if (this.#engine) this.#pickVoice(this.#engine);
    this.#advanced.take({ seed, sampling });
    this.#drawCount();
    this.#tell();
  }

  /** @param {import('../client/api.js').EngineInfo} engine */
  #pickVoice({ voices, default_voice: byDefault }) {
    const wanted = this.#wantedVoice;
    this.#elements.voice.value = voices.includes(wanted) ? wanted : (byDefault ?? voices[0] ?? '');
  }

  /** What the server cannot do of what is wanted: never without a word. */
  #tell() {
    const { voice, told } = this.#elements;
    if (!this.#engine) return;
    const lacks = missing({ ...this.#setup(), voice: this.#wantedVoice }, this.#engine);
    const says = [];
    if (lacks.voice) says.push(strings.noVoice(lacks.voice.slice(0, SHOWN_CHARS), voice.value));
    if (lacks.numbers && this.#isLinked) says.push(strings.noNumbers);
    write(told, says.join(' '));
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
    this.#tell();
    this.#onChange();
    const setup = this.#setup();
    try {
      this.#storage?.setItem(STORAGE_KEY, JSON.stringify(setup));
    } catch {
      // full or forbidden: the choice holds for this page only
    }
    try {
      history.replaceState(history.state, '', location.pathname + location.search + writeAddress(setup, location.hash));
    } catch {
      // too many in a short time, as whoever types makes them: a later one has it all
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
    const length = chars(persona.value);
    const isOver = this.#maxChars > 0 && length > this.#maxChars;
    write(count, this.#maxChars ? `${length} / ${this.#maxChars}` : String(length));
    count.classList.toggle('over', isOver);
    persona.setAttribute('aria-invalid', String(isOver));
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
