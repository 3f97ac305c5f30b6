import { strings } from './language.js';
import { emptySetup, numberIn, SAMPLING } from './setup.js';

/**
 * The numbers of a call that few people touch: the seed, and how the engine samples.
 *
 * @typedef {import('./setup.js').Setup} Setup
 * @typedef {import('./setup.js').Range} Range
 * @typedef {'seed' | import('./setup.js').SamplingName} Name
 * @typedef {Record<import('./setup.js').SamplingName, {default: number, min: number, max: number}>} SamplingSettings
 */

/** @type {readonly Name[]} */
const NAMES = ['seed', ...SAMPLING];

export class Advanced {
  #root;
  /** @type {Map<Name, {row: HTMLElement, input: HTMLInputElement, problem: HTMLElement}>} */
  #fields = new Map();
  /** @type {SamplingSettings | null} */
  #settings = null;
  #maxSeed = Number.MAX_SAFE_INTEGER;

  /**
   * @param {{root: HTMLDetailsElement, numbers: HTMLElement}} elements
   * @param {() => void} onChange
   */
  constructor({ root, numbers }, onChange) {
    this.#root = root;
    for (const name of NAMES) this.#addField(numbers, name, onChange);
  }

  /**
   * @param {SamplingSettings | null} settings Null: this engine does not sample. It gets a seed all the same, so one that a
   *   link has brought is to be seen.
   * @param {number} [maxSeed]
   */
  offer(settings, maxSeed = Number.MAX_SAFE_INTEGER) {
    this.#settings = settings;
    this.#maxSeed = Math.min(maxSeed, Number.MAX_SAFE_INTEGER); // beyond it JSON of this side is not exact
    this.#root.hidden = settings === null && !this.#root.open;
    for (const name of SAMPLING) {
      const field = this.#fields.get(name);
      if (!field) continue;
      field.row.hidden = settings === null;
      if (settings) field.input.placeholder = String(settings[name].default);
    }
    for (const name of NAMES) this.#check(name);
  }

  /** @returns {{seed: Range, sampling: Record<import('./setup.js').SamplingName, Range> | null}} */
  get ranges() {
    const settings = this.#settings;
    return {
      seed: { min: 0, max: this.#maxSeed, whole: true },
      sampling: settings && {
        audio_temperature: { ...settings.audio_temperature, whole: false },
        audio_top_k: { ...settings.audio_top_k, whole: true },
        text_temperature: { ...settings.text_temperature, whole: false },
        text_top_k: { ...settings.text_top_k, whole: true },
      },
    };
  }

  /** @returns {Pick<Setup, 'seed' | 'sampling'>} */
  get typed() {
    const { sampling } = emptySetup();
    for (const name of SAMPLING) sampling[name] = this.#value(name);
    return { seed: this.#value('seed'), sampling };
  }

  /** @param {Pick<Setup, 'seed' | 'sampling'>} setup */
  take({ seed, sampling }) {
    for (const name of NAMES) {
      const field = this.#fields.get(name);
      if (field) field.input.value = name === 'seed' ? seed : sampling[name];
      this.#check(name);
    }
    this.#root.open = NAMES.some((name) => this.#value(name) !== '');
    if (this.#root.open) this.#root.hidden = false;
  }

  /** @param {Name} name */
  #value(name) {
    return this.#fields.get(name)?.input.value.trim() ?? '';
  }

  /** Say so where a number is none, or out of its range. @param {Name} name */
  #check(name) {
    const field = this.#fields.get(name);
    if (!field) return;
    const { seed, sampling } = this.ranges;
    const range = name === 'seed' ? seed : sampling?.[name];
    const typed = this.#value(name);
    const wrong = typed !== '' && range !== undefined && numberIn(typed, range) === null;
    field.input.setAttribute('aria-invalid', String(wrong));
    write(field.problem, wrong ? strings.advanced.outOfRange(range.min, range.max, range.whole) : '');
  }

  /**
   * @param {HTMLElement} numbers
   * @param {Name} name
   * @param {() => void} onChange
   */
  #addField(numbers, name, onChange) {
    const row = document.createElement('div');
    row.className = 'number';
    const label = document.createElement('label');
    label.htmlFor = `advanced-${name}`;
    label.textContent = strings.advanced.names[name];
    // No type=number: it hides what is no number, and a wheel over it changes it.
    const input = document.createElement('input');
    input.id = label.htmlFor;
    input.dataset.testid = `advanced-${name}`;
    input.inputMode = 'decimal';
    input.autocomplete = 'off';
    input.placeholder = name === 'seed' ? strings.advanced.anySeed : '';
    const problem = document.createElement('p');
    problem.id = `${input.id}-problem`;
    problem.className = 'number-problem';
    problem.setAttribute('role', 'status');
    input.setAttribute('aria-describedby', problem.id);
    input.addEventListener('input', () => {
      this.#check(name);
      onChange();
    });
    row.append(label, input, problem);
    numbers.append(row);
    this.#fields.set(name, { row, input, problem });
  }
}

/**
 * A live region is read out whenever it is written, and so only when it says something else.
 *
 * @param {HTMLElement} element
 * @param {string} text
 */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
