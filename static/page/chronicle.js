/**
 * What happened in a call and when, for people who want to keep it: every event of the server, and when each word of
 * both sides was heard.
 *
 * @typedef {import('../client/transcript.js').Turn} Turn
 * @typedef {{at_ms: number, event: any}} Happening `at_ms`: since the agent could first be talked to.
 * @typedef {{text: string, atMs: number, cut: boolean}} TimedWord
 * @typedef {{side: 'agent' | 'user', words: TimedWord[], startMs: number, endMs: number, interrupted: boolean}} Passage
 */

/** An hour of a talkative agent. What is older leaves first, and `left` counts it. */
export const MAX_HAPPENINGS = 20_000;
/** A day of it. What is older leaves first, and `turnsLeft` counts it. */
export const MAX_TURNS = 5_000;
/** A word is taken to be heard for so long where nothing tells its end. */
const LAST_WORD_MS = 600;

export class Chronicle {
  /** @type {Happening[]} */
  happenings = [];
  /** How many events are not kept any more. */
  left = 0;
  /** How many turns are not kept any more, those of earlier pages among them. */
  turnsLeft = 0;
  /** @type {Map<number, {turn: Turn, atMs: number[], endMs: number}>} */
  #turns = new Map();
  #beganMs = 0;
  #clock;

  /** @param {() => number} clock Milliseconds, monotone. */
  constructor(clock = () => performance.now()) {
    this.#clock = clock;
  }

  /** @param {import('./conversation.js').Conversation} conversation */
  follow(conversation) {
    conversation.on('fresh', () => this.clear());
    conversation.on('began', (atMs) => this.began(atMs));
    conversation.on('server', (event) => this.happened(event));
    conversation.on('left', (turns) => (this.turnsLeft = turns));
    conversation.on('turn', (turn, change) => this.turn(turn, change));
  }

  /** Times count from then. @param {number} nowMs */
  began(nowMs) {
    this.#beganMs = nowMs;
  }

  clear() {
    this.happenings = [];
    this.left = this.turnsLeft = 0;
    this.#turns.clear();
    this.#beganMs = this.#clock();
  }

  get isEmpty() {
    return this.#turns.size === 0 && this.happenings.length === 0;
  }

  /** @param {any} event */
  happened(event) {
    if (event.type === 'session.created') event = { ...event, resume_token: undefined }; // who has it has the call
    this.happenings.push({ at_ms: this.#sinceBegan(this.#clock()), event });
    if (this.happenings.length > MAX_HAPPENINGS) {
      this.happenings.shift();
      this.left += 1;
    }
  }

  /**
   * @param {Turn} turn
   * @param {import('../client/transcript.js').TurnChange} change
   */
  turn(turn, change) {
    if (change === 'left') return; // the page has no room for it any more; a file has
    if (change === 'removed') return void this.#turns.delete(turn.id);
    // One that is final when it is first told is of an earlier page, and nothing tells when its words were heard.
    const now = turn.final && !this.#turns.has(turn.id) ? turn.startedMs : this.#clock();
    const known = this.#turns.get(turn.id) ?? { turn, atMs: [], endMs: turn.startedMs };
    this.#turns.set(turn.id, known);
    if (this.#turns.size > MAX_TURNS) this.#leaveOldest();
    const heard = turn.words.length;
    if (heard > known.atMs.length) known.endMs = now;
    while (known.atMs.length < heard) known.atMs.push(now);
    known.turn = turn;
    if (turn.spokeMs !== null) known.endMs = Math.max(known.endMs, turn.startedMs + turn.spokeMs);
  }

  #leaveOldest() {
    const [oldest] = this.#turns.keys();
    this.#turns.delete(oldest);
    this.turnsLeft += 1;
  }

  /** What was said, by its beginning; times are milliseconds since the call began, never below 0. @returns {Passage[]} */
  passages() {
    return [...this.#turns.values()]
      .map(({ turn, atMs, endMs }) => {
        const startMs = this.#sinceBegan(turn.startedMs);
        const words = turn.words.map(({ text, cut }, index) => ({ text, cut, atMs: this.#sinceBegan(atMs[index] ?? endMs) }));
        const lastMs = Math.max(this.#sinceBegan(endMs), words.at(-1)?.atMs ?? 0) + (words.length ? LAST_WORD_MS : 0);
        return { side: turn.side, words, startMs, endMs: Math.max(lastMs, startMs + 1), interrupted: turn.interrupted };
      })
      .filter(({ words }) => words.length > 0)
      .sort((a, b) => a.startMs - b.startMs);
  }

  /** @param {number} ms */
  #sinceBegan(ms) {
    return Math.max(0, Math.round(ms - this.#beganMs));
  }
}
