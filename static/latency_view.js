import { LATENCY_PARTS } from './messages.js';

/** The live figure, and what it is made of. */
export class LatencyView {
  #figure;
  #table;
  #root;

  /** @param {{root: HTMLElement, figure: HTMLElement, table: HTMLElement}} elements */
  constructor({ root, figure, table }) {
    this.#root = root;
    this.#figure = figure;
    this.#table = table;
  }

  clear() {
    this.#root.hidden = true;
    this.#figure.textContent = '';
    this.#table.replaceChildren();
  }

  /** @param {import('./latency.js').LatencyEstimate} estimate */
  show({ totalMs, parts }) {
    this.#root.hidden = false;
    this.#figure.textContent = `${Math.round(totalMs)} ms`;
    const rows = this.#table.children.length ? [...this.#table.children] : parts.map(() => this.#addRow());
    parts.forEach(({ part, ms }, index) => {
      const [name, value] = /** @type {any} */ (rows[index].children);
      name.textContent = LATENCY_PARTS[part];
      value.textContent = `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
      /** @type {HTMLElement} */ (rows[index]).style.setProperty('--share', String(ms / totalMs));
    });
  }

  #addRow() {
    const row = document.createElement('tr');
    const name = document.createElement('th');
    name.scope = 'row';
    row.append(name, document.createElement('td'));
    this.#table.append(row);
    return row;
  }
}
