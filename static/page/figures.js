/**
 * The live figures of a call and where they were in the last minute. Pure: readings go in once a second.
 *
 * @typedef {'mouthToEar' | 'roundTrip' | 'jitterDelay' | 'lossUp' | 'lossDown' | 'tick'} Figure
 * @typedef {{loss?: number | null, jitter_delay_ms?: number, tick_ms?: number}} ServerFigures The event `session.stats`.
 */

/** In the order in which they are shown. @type {readonly Figure[]} */
export const FIGURES = ['mouthToEar', 'roundTrip', 'jitterDelay', 'lossUp', 'lossDown', 'tick'];
/** A minute. */
export const KEPT = 60;
/** What fills a graph at least, so that a quiet figure does not look like a wild one: milliseconds, or a share. @type {Record<Figure, number>} */
export const LEAST_TOP = { mouthToEar: 300, roundTrip: 100, jitterDelay: 100, lossUp: 0.1, lossDown: 0.1, tick: 80 };

export class Figures {
  /** The newest last; null where there was none. @type {Record<Figure, (number | null)[]>} */
  #history = { mouthToEar: [], roundTrip: [], jitterDelay: [], lossUp: [], lossDown: [], tick: [] };
  /** @type {ServerFigures} */
  #server = {};
  /** @type {number | null} */
  #mouthToEarMs = null;
  #received = 0;
  #lost = 0;

  /** @param {ServerFigures} event */
  serverStats(event) {
    this.#server = event;
  }

  /** @param {number} ms */
  latency(ms) {
    this.#mouthToEarMs = ms;
  }

  /** Once a second. @param {import('../client/stats.js').CallStats} stats */
  read(stats) {
    const received = stats.packetsReceived - this.#received;
    const lost = stats.packetsLost - this.#lost;
    this.#received = stats.packetsReceived;
    this.#lost = stats.packetsLost;
    this.#add('mouthToEar', this.#mouthToEarMs);
    this.#add('roundTrip', stats.roundTripMs);
    this.#add('jitterDelay', this.#server.jitter_delay_ms);
    this.#add('lossUp', this.#server.loss);
    // A packet that was late and came after all lowers what was lost; another connection counts anew.
    this.#add('lossDown', received > 0 ? Math.max(0, lost) / (received + Math.max(0, lost)) : null);
    this.#add('tick', this.#server.tick_ms);
  }

  /** @param {Figure} figure */
  now(figure) {
    return this.#history[figure].at(-1) ?? null;
  }

  /** @param {Figure} figure */
  history(figure) {
    return this.#history[figure];
  }

  /** Least, middle and most of the last minute. @param {Figure} figure */
  summary(figure) {
    const known = this.#history[figure].filter((value) => value !== null).sort((a, b) => a - b);
    return known.length ? { least: known[0], median: known[known.length >> 1], most: known[known.length - 1] } : null;
  }

  /**
   * @param {Figure} figure
   * @param {number | null | undefined} value
   */
  #add(figure, value) {
    const history = this.#history[figure];
    history.push(value ?? null);
    if (history.length > KEPT) history.shift();
  }
}

/**
 * The line of a graph, in a box of `width` by `height` with the newest value at the right edge.
 *
 * @param {(number | null)[]} values
 * @param {number} leastTop
 * @param {{width: number, height: number}} box
 * @returns {string} Of an SVG path; '' where there is nothing to draw. Gaps are gaps.
 */
export function path(values, leastTop, { width, height }) {
  const top = Math.max(leastTop, ...values.map((value) => value ?? 0));
  const step = width / (KEPT - 1);
  let line = '';
  let drawing = false;
  values.forEach((value, index) => {
    if (value === null) return void (drawing = false);
    const x = width - (values.length - 1 - index) * step;
    const y = height - (Math.max(0, value) / top) * height;
    line += `${drawing ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`;
    if (!drawing && (values[index + 1] ?? null) === null) line += 'h.01'; // a lone value is a dot
    drawing = true;
  });
  return line;
}
