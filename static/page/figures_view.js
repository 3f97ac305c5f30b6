import { FIGURES, Figures, LEAST_TOP, path } from './figures.js';
import { strings } from './language.js';

/** @typedef {import('./figures.js').Figure} Figure */

const BOX = { width: 120, height: 24 };
const SVG = 'http://www.w3.org/2000/svg';

/** Each figure with its value now and a small graph of the last minute. */
export class FiguresView {
  figures = new Figures();
  /** @type {Map<Figure, {value: HTMLElement, line: SVGPathElement}>} */
  #rows = new Map();

  /**
   * @param {HTMLElement} list A `dl`.
   * @param {import('./conversation.js').Conversation} conversation
   */
  constructor(list, conversation) {
    for (const figure of FIGURES) this.#addRow(list, figure);
    conversation.on('client', () => {
      this.figures = new Figures();
      this.#draw();
    });
    conversation.on('server', (event) => event.type === 'session.stats' && this.figures.serverStats(event));
    conversation.on('latency', ({ totalMs }) => this.figures.latency(totalMs));
    conversation.on('stats', (stats) => {
      this.figures.read(stats);
      this.#draw();
    });
  }

  #draw() {
    for (const [figure, { value, line }] of this.#rows) {
      value.textContent = shown(figure, this.figures.now(figure));
      line.setAttribute('d', path(this.figures.history(figure), LEAST_TOP[figure], BOX));
    }
  }

  /**
   * @param {HTMLElement} list
   * @param {Figure} figure
   */
  #addRow(list, figure) {
    const row = document.createElement('div');
    row.className = 'figure';
    row.dataset.testid = `figure-${figure}`;
    const name = document.createElement('dt');
    name.textContent = strings.figures.names[figure];
    const value = document.createElement('dd');
    const graph = document.createElementNS(SVG, 'svg');
    graph.setAttribute('viewBox', `0 0 ${BOX.width} ${BOX.height}`);
    graph.setAttribute('preserveAspectRatio', 'none');
    graph.setAttribute('aria-hidden', 'true');
    const line = document.createElementNS(SVG, 'path');
    graph.append(line);
    row.append(name, value, graph);
    list.append(row);
    this.#rows.set(figure, { value, line });
  }
}

/**
 * @param {Figure} figure
 * @param {number | null} value
 */
function shown(figure, value) {
  if (value === null) return '–';
  if (figure.startsWith('loss')) return strings.units.percent((100 * value).toFixed(value > 0 && value < 0.1 ? 1 : 0));
  return strings.units.ms(value.toFixed(value < 10 ? 1 : 0));
}
