import { LATENCY_PARTS } from './messages.js';

/** The live figure, and what it is made of. */
export class LatencyView {
  #root;
  #figure;
  #parts;

  /** @param {{root: HTMLElement, figure: HTMLElement, parts: HTMLElement}} elements */
  constructor({ root, figure, parts }) {
    this.#root = root;
    this.#figure = figure;
    this.#parts = parts;
  }

  clear() {
    this.#root.hidden = true;
    this.#figure.textContent = '';
    this.#parts.replaceChildren();
  }

  /** @param {import('./latency.js').LatencyEstimate} estimate */
  show({ totalMs, parts }) {
    this.#root.hidden = false;
    this.#figure.textContent = `${Math.round(totalMs)} ms`;
    parts.forEach(({ part, ms }, index) => {
      const row = /** @type {HTMLElement} */ (this.#parts.children[index] ?? this.#addRow(LATENCY_PARTS[part]));
      row.style.setProperty('--share', String(ms / totalMs));
      /** @type {HTMLElement} */ (row.lastElementChild).textContent = `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
    });
  }

  /** @param {string} name */
  #addRow(name) {
    const row = document.createElement('div');
    row.append(document.createElement('dt'), document.createElement('dd'));
    row.children[0].textContent = name;
    this.#parts.append(row);
    return row;
  }
}
