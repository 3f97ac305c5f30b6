import { strings } from './language.js';

/** The live figure, and what it is made of. A call that came to nothing has none, and can be described all the same. */
export class LatencyView {
  #root;
  #name;
  #figure;
  #parts;
  #isKnown = false;

  /**
   * @param {{root: HTMLElement, name: HTMLElement, figure: HTMLElement, parts: HTMLElement}} elements
   * @param {import('./conversation.js').Conversation} conversation
   */
  constructor({ root, name, figure, parts }, conversation) {
    this.#root = root;
    this.#name = name;
    this.#figure = figure;
    this.#parts = parts;
    // What was last seen stays when the call is over: a call that went badly is looked at then.
    conversation.on('client', () => this.#begin());
    conversation.on('state', () => {
      const { phase } = conversation.call;
      const isOver = phase === 'ended' || phase === 'failed';
      if (isOver || phase === 'live' || phase === 'reconnecting') this.#root.hidden = false;
      if (isOver && !this.#isKnown) this.#label(strings.page.diagnostics, '');
    });
    conversation.on('latency', (estimate) => this.#show(estimate));
  }

  #begin() {
    this.#root.hidden = true;
    this.#isKnown = false;
    this.#label(strings.page.mouthToEar, '–');
    this.#parts.replaceChildren();
  }

  /**
   * @param {string} name
   * @param {string} figure
   */
  #label(name, figure) {
    this.#name.textContent = name;
    this.#figure.textContent = figure;
  }

  /** @param {import('./latency.js').LatencyEstimate} estimate */
  #show({ totalMs, parts }) {
    this.#isKnown = true;
    this.#figure.textContent = strings.units.ms(totalMs.toFixed(0));
    parts.forEach(({ part, ms }, index) => {
      const row = /** @type {HTMLElement} */ (this.#parts.children[index] ?? this.#addRow(strings.latencyParts[part]));
      row.style.setProperty('--share', String(ms / totalMs));
      /** @type {HTMLElement} */ (row.lastElementChild).textContent = strings.units.ms(ms.toFixed(ms < 10 ? 1 : 0));
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
