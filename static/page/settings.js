/**
 * What the person chose before the call: persona and voice, kept in this browser.
 */
import { strings } from './language.js';

const STORAGE_KEY = 'rtc_server.settings';

export class Settings {
  #root;
  #persona;
  #note;
  #voice;
  #count;
  #presets;
  #fields;
  #storage;
  #maxChars = 0;

  /**
   * @param {object} elements
   * @param {HTMLDetailsElement} elements.root
   * @param {HTMLTextAreaElement} elements.persona
   * @param {HTMLElement} elements.note What a persona does with this engine.
   * @param {HTMLSelectElement} elements.voice
   * @param {HTMLElement} elements.count
   * @param {HTMLElement} elements.presets
   * @param {HTMLFieldSetElement} elements.fields
   * @param {Storage | null} storage
   * @param {import('./conversation.js').Conversation} conversation
   */
  constructor({ root, persona, note, voice, count, presets, fields }, storage, conversation) {
    this.#root = root;
    this.#persona = persona;
    this.#note = note;
    this.#voice = voice;
    this.#count = count;
    this.#presets = presets;
    this.#fields = fields;
    this.#storage = storage;
    this.#follow(conversation);
    this.#drawPresets();
    const kept = this.#load();
    persona.value = kept.persona;
    persona.addEventListener('input', () => this.#changed());
    voice.addEventListener('change', () => this.#changed());
  }

  /** @param {import('../client/api.js').EngineInfo} engine */
  offer(engine) {
    this.#maxChars = engine.max_persona_chars ?? 0;
    if (this.#maxChars) this.#persona.maxLength = this.#maxChars;
    if (engine.default_persona) this.#persona.placeholder = engine.default_persona;
    this.#note.textContent = engine.persona_note ?? '';
    this.#note.hidden = !engine.persona_note;
    const chosen = this.#voice.value || this.#load().voice;
    this.#voice.replaceChildren(...engine.voices.map((name) => new Option(name, name)));
    const known = engine.voices.includes(chosen);
    this.#voice.value = known ? chosen : (engine.default_voice ?? engine.voices[0] ?? '');
    this.#voice.disabled = engine.voices.length < 2;
    this.#drawCount();
  }

  /** The words of the call need the room. */
  close() {
    this.#root.open = false;
  }

  /** @returns {{persona?: string, voice?: string}} */
  chosen() {
    return { persona: this.#persona.value.trim() || undefined, voice: this.#voice.value || undefined };
  }

  /**
   * A call's persona and voice are settled when it starts. Once the agent is there its words need the room; a call that
   * fails leaves the choices in sight.
   *
   * @param {import('./conversation.js').Conversation} conversation
   */
  #follow(conversation) {
    let settled = false;
    conversation.on('state', () => {
      const { isActive, phase } = conversation.call;
      this.#fields.disabled = isActive;
      if (phase === 'live' && !settled) this.close();
      settled = isActive && (settled || phase === 'live');
    });
  }

  #changed() {
    this.#drawCount();
    try {
      this.#storage?.setItem(STORAGE_KEY, JSON.stringify({ persona: this.#persona.value, voice: this.#voice.value }));
    } catch {
      // full or forbidden: the choice holds for this page only
    }
  }

  #load() {
    try {
      const { persona = '', voice = '' } = JSON.parse(this.#storage?.getItem(STORAGE_KEY) ?? '{}');
      return { persona: String(persona), voice: String(voice) };
    } catch {
      return { persona: '', voice: '' };
    }
  }

  #drawCount() {
    const { length } = this.#persona.value;
    this.#count.textContent = this.#maxChars ? `${length} / ${this.#maxChars}` : String(length);
    this.#count.classList.toggle('over', this.#maxChars > 0 && length >= this.#maxChars);
    for (const button of this.#presets.querySelectorAll('button')) {
      button.setAttribute('aria-pressed', String(button.dataset.text === this.#persona.value));
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
        this.#persona.value = this.#persona.value === text ? '' : text;
        this.#changed();
      });
      this.#presets.append(button);
    }
  }
}
