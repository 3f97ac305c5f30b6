import { loudness } from './levels.js';

/**
 * The last half minute of both voices on one axis of time, in columns, and what happened between them. Pure; times are
 * milliseconds of one monotone clock.
 *
 * @typedef {import('./turntaking.js').Moment} Moment
 * @typedef {{startMs: number, user: number, agent: number, both: boolean}} Column Loudness 0..1 of each; whether they overlap.
 */

/** As often as the levels are read. */
export const COLUMN_MS = 100;
export const SPAN_MS = 30_000;
/** Of a narrower picture half is enough. */
export const NARROW_PX = 440;
/** A level stands for so long when the next one is late. */
const COAST_COLUMNS = 3;

export class Timeline {
  #user = new Float32Array(SPAN_MS / COLUMN_MS);
  #agent = new Float32Array(SPAN_MS / COLUMN_MS);
  /** The column that was written last, counted from time 0. */
  #newest = -1;
  /** Those that can be seen, the oldest first. @type {Moment[]} */
  #moments = [];

  get isEmpty() {
    return this.#newest < 0;
  }

  /** @param {{user: number, agent: number, nowMs: number}} levels Linear, 0..1. */
  levels({ user, agent, nowMs }) {
    const at = Math.floor(nowMs / COLUMN_MS);
    if (at < this.#newest) return;
    const length = this.#user.length;
    if (this.#newest < 0 || at - this.#newest > length) this.#newest = at - length;
    const isNew = at > this.#newest;
    const isLate = at - this.#newest > COAST_COLUMNS;
    for (let column = this.#newest + 1; column <= at; column++) {
      this.#user[column % length] = isLate ? 0 : loudness(user);
      this.#agent[column % length] = isLate ? 0 : loudness(agent);
    }
    // Two readings in one column: the louder one is seen.
    this.#user[at % length] = Math.max(isNew ? 0 : this.#user[at % length], loudness(user));
    this.#agent[at % length] = Math.max(isNew ? 0 : this.#agent[at % length], loudness(agent));
    this.#newest = at;
    this.#moments = this.#moments.filter(({ endMs }) => endMs === null || endMs > nowMs - SPAN_MS);
  }

  /**
   * @param {Moment} moment
   * @param {'began' | 'changed' | 'removed'} change
   */
  moment(moment, change) {
    if (change === 'removed') this.#moments = this.#moments.filter(({ id }) => id !== moment.id);
    else if (change === 'began') this.#moments.push(moment);
  }

  /** The call has ended: nothing goes on any more. @param {number} nowMs */
  end(nowMs) {
    for (const moment of this.#moments) moment.endMs ??= nowMs;
  }

  clear() {
    this.#newest = -1;
    this.#moments = [];
  }

  /** @returns {Column[]} The oldest first; none where nothing was written yet. */
  columns() {
    const length = this.#user.length;
    if (this.#newest < 0) return [];
    return Array.from({ length }, (_, index) => {
      const column = this.#newest - length + 1 + index;
      const startMs = column * COLUMN_MS;
      const at = ((column % length) + length) % length;
      return { startMs, user: this.#user[at], agent: this.#agent[at], both: this.#isBoth(startMs) };
    });
  }

  /** What is to be named in the picture, the oldest first. @returns {Moment[]} */
  marks() {
    return this.#moments.filter(({ kind }) => kind !== 'overlap');
  }

  /** @param {number} startMs */
  #isBoth(startMs) {
    return this.#moments.some((moment) => startMs + COLUMN_MS > moment.startMs && startMs < (moment.endMs ?? Infinity));
  }
}

/**
 * How much of it a picture has room for, and which part of the example holds all that it is to show.
 *
 * @param {number} width Pixels.
 */
export function excerpt(width) {
  return width < NARROW_PX ? { spanMs: SPAN_MS / 2, exampleEndMs: 25_500 } : { spanMs: SPAN_MS, exampleEndMs: SPAN_MS };
}

/**
 * Where marks stand in a picture, and their names. What has begun left of it is not named: its name would stand at
 * somebody else's mark.
 *
 * @param {Moment[]} marks The oldest first.
 * @param {{width: number, toX: (ms: number) => number, textWidth: (mark: Moment) => number}} picture Pixels.
 * @returns {{mark: Moment, x: number, textX: number | null}[]} `textX` null where there is no room for the name.
 */
export function labels(marks, { width, toX, textWidth }) {
  /** Where the last name of each side ended. */
  const endX = { user: -Infinity, agent: -Infinity };
  const seen = marks.map((mark) => ({ mark, x: toX(mark.startMs) })).filter(({ x }) => x >= 0 && x <= width);
  return seen.map(({ mark, x }) => {
    const wide = textWidth(mark);
    const textX = Math.min(Math.max(x - 4, 2), width - wide - 2);
    if (textX < endX[mark.by]) return { mark, x, textX: null };
    endX[mark.by] = textX + wide + 8;
    return { mark, x, textX };
  });
}

/**
 * Half a minute as it might be: the agent tells something, the listener hums along, then cuts in, and is answered.
 *
 * @returns {Timeline}
 */
export function example() {
  const timeline = new Timeline();
  /** @type {Record<'user' | 'agent', [startMs: number, endMs: number][]>} */
  const speech = {
    user: [[1_200, 5_400], [11_600, 12_300], [18_600, 22_000]],
    agent: [[5_000, 15_400], [16_000, 19_500], [21_700, 28_600]],
  };
  for (let nowMs = 0; nowMs < SPAN_MS; nowMs += COLUMN_MS) {
    timeline.levels({ user: murmur(speech.user, nowMs), agent: murmur(speech.agent, nowMs), nowMs });
  }
  /** @type {Omit<Moment, 'id'>[]} */
  const moments = [
    { kind: 'overlap', by: 'agent', startMs: 5_000, endMs: 5_400 },
    { kind: 'backchannel', by: 'user', startMs: 11_600, endMs: 12_300 },
    { kind: 'interruption', by: 'user', startMs: 18_600, endMs: 19_500 },
    { kind: 'overlap', by: 'agent', startMs: 21_700, endMs: 22_000 },
  ];
  moments.forEach((moment, index) => timeline.moment({ id: index, ...moment }, 'began'));
  return timeline;
}

/**
 * A level that looks like speech.
 *
 * @param {[number, number][]} spans
 * @param {number} nowMs
 */
function murmur(spans, nowMs) {
  const span = spans.find(([startMs, endMs]) => nowMs >= startMs && nowMs < endMs);
  if (!span) return 0;
  const syllables = Math.abs(Math.sin(nowMs / 210) * Math.sin(nowMs / 75 + span[0]));
  return 0.02 + 0.25 * syllables;
}
