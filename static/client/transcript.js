/**
 * Both sides' words, in the order in which they were heard.
 *
 * The agent's words arrive before their sound does: each waits until the playhead reaches its RTP timestamp. Only then is
 * it one of the turn's `words`; until then it is in `coming`, which a page may show if nobody can take it for heard.
 * Without a playhead a fixed delay stands in for it. Times are milliseconds of one monotone clock, passed in.
 *
 * A turn of the agent goes on through short remarks of the user (people say "mm-hm"); it ends when the agent was
 * silent for a while. When the user interrupts and the agent does fall silent, the word that was cut is marked.
 */

/**
 * @typedef {{text: string, cut: boolean}} Word
 *
 * @typedef {object} Turn
 * @property {number} id
 * @property {'agent' | 'user'} side
 * @property {Word[]} words What was heard.
 * @property {string[]} coming Words that have arrived and were not heard yet; empty again when they never will be.
 * @property {string} rest What is still to be heard of the last word, or ''.
 * @property {boolean} final Nothing will be added any more.
 * @property {boolean} interrupted
 * @property {number} startedMs
 * @property {number | null} spokeMs How long the user spoke; for engines that tell no words of the user.
 *
 * @typedef {'changed' | 'final' | 'removed' | 'left'} TurnChange `removed`: it was none. `left`: it was said, and is too old
 *   to be in `turns` any more.
 *
 * @typedef {Pick<Turn, 'side' | 'words' | 'interrupted' | 'spokeMs'> & {agoMs: number}} KeptTurn `agoMs`: since it began.
 *
 * @typedef {{data: string, rtp_timestamp?: number | null}} Delta
 * @typedef {{item: number, text: string, final: boolean, start_ms: number, end_ms: number}} UserWords
 *
 * @typedef {object} Piece
 * @property {string} text
 * @property {number | null} rtpTimestamp
 * @property {number} arrivedMs
 *
 * @typedef {object} Remark What the user is saying; its words may come later or never.
 * @property {Turn} turn
 * @property {number | null} item
 * @property {number} startMs Position in the user's audio.
 * @property {number | null} stopMs
 * @property {number} stoppedAtMs
 */

/** From the arrival of a word to its sound, where the browser tells no playout position. */
const FIXED_DELAY_MS = 150;
/** A timestamp farther away than this belongs to another clock. */
const MAX_AHEAD_MS = 3_000;
/** Sound on its way to the ear: left the server, not yet heard. */
const IN_FLIGHT_MS = 160;
/** Of what is coming, so much is told. */
const MAX_COMING_PIECES = 24;
/** Agent silence after which its next word begins a new turn, if the user spoke meanwhile; and in any case. */
const PAUSE_MS = 1_200;
const LONG_PAUSE_MS = 4_000;
/**
 * An interruption counts if the agent falls silent soon after it: it was not heard for so long, and a pause longer than
 * those between sentences is to come of it. An answer that has arrived may be on its way to the ear by then.
 */
const SILENCED_MS = 350;
const SILENCED_PAUSE_MS = 500;
const SILENCED_WITHIN_MS = 2_000;
/** A noise shorter than this is no remark, and a remark without words is dropped where others had words. */
const MIN_REMARK_MS = 300;
const WORDS_LATE_MS = 4_000;
/** What is older leaves first, and `left` counts it. */
export const MAX_TURNS = 400;
/** So much, as JSON, goes with the call to a page that goes on with it: a tab's storage takes some 5 million characters. */
const MAX_KEPT_CHARS = 1_000_000;
const KEPT_TURN_CHARS = 100;
const KEPT_WORD_CHARS = 24;
const MAX_PENDING = 2_000;

export class Transcript {
  /** @type {Turn[]} */
  turns = [];
  /** How many turns were said before them. */
  left = 0;
  #nextId = 1;
  /** @type {Piece[]} */
  #pending = [];
  /** @type {Turn | null} */
  #agentTurn = null;
  #lastWordMs = -Infinity;
  #wordOpen = false;
  /** @type {Remark[]} */
  #remarks = [];
  #userHasWords = false;
  /** When the user last interrupted; null once it is settled what came of it. @type {number | null} */
  #interruptedMs = null;
  #onChange;
  #wordAfterMs;

  /**
   * @param {(turn: Turn, change: TurnChange) => void} onChange
   * @param {{wordAfterMs?: number}} [options] `wordAfterMs`: a timestamp names the frame in which a word begins; from
   *   there to the word itself.
   */
  constructor(onChange = () => {}, { wordAfterMs = 0 } = {}) {
    this.#onChange = onChange;
    this.#wordAfterMs = wordAfterMs;
  }

  /**
   * A piece of the agent's words, as it is to be appended: spaces included.
   *
   * @param {Delta} delta
   * @param {number} nowMs
   */
  agentDelta({ data, rtp_timestamp = null }, nowMs) {
    if (this.#pending.length >= MAX_PENDING) this.#pending.shift();
    this.#pending.push({ text: String(data), rtpTimestamp: rtp_timestamp, arrivedMs: nowMs });
    if (this.#agentTurn && this.#expect(this.#agentTurn)) this.#onChange(this.#agentTurn, 'changed');
  }

  /**
   * @param {{audio_ms: number}} event
   * @param {number} nowMs
   */
  userStarted({ audio_ms }, nowMs) {
    if (this.#remarks.at(-1)?.stopMs === null) return;
    const turn = this.#newTurn('user', nowMs);
    this.#remarks.push({ turn, item: null, startMs: audio_ms, stopMs: null, stoppedAtMs: 0 });
    this.#onChange(turn, 'changed');
  }

  /**
   * @param {{audio_ms: number}} event
   * @param {number} nowMs
   */
  userStopped({ audio_ms }, nowMs) {
    const remark = this.#remarks.at(-1);
    if (!remark || remark.stopMs !== null) return;
    remark.stopMs = audio_ms;
    remark.stoppedAtMs = nowMs;
    if (remark.turn.final) return;
    remark.turn.spokeMs = Math.max(0, audio_ms - remark.startMs);
    if (remark.turn.spokeMs < MIN_REMARK_MS && !remark.turn.words.length && this.#userHasWords) this.#drop(remark);
    else this.#onChange(remark.turn, 'changed');
  }

  /**
   * The user's words; what is not final is replaced by what comes next.
   *
   * @param {UserWords} words
   * @param {number} nowMs
   */
  userWords({ item, text, final, start_ms, end_ms }, nowMs) {
    this.#userHasWords = true;
    let remark = this.#remarkOf(item, end_ms);
    if (!remark) {
      if (!text.trim()) return;
      const turn = this.#newTurn('user', nowMs);
      remark = { turn, item, startMs: start_ms, stopMs: end_ms, stoppedAtMs: nowMs };
      this.#remarks.push(remark);
    }
    remark.item = item;
    const { turn } = remark;
    turn.words = text.split(/\s+/).filter(Boolean).map((word) => ({ text: word, cut: false }));
    if (final && !turn.words.length) return this.#drop(remark);
    if (!turn.final || final) this.#onChange(turn, 'changed');
    if (final) this.#finish(turn);
  }

  /**
   * The user spoke over the agent. What comes of it shows when the agent falls silent, or does not.
   *
   * @param {number} nowMs
   */
  bargeIn(nowMs) {
    if (this.#agentTurn || this.#pending.length) this.#interruptedMs = nowMs;
  }

  /**
   * Audio that was made was not sent: its words were never spoken.
   *
   * @param {{dropped_ms: number}} event
   * @param {import('./playhead.js').Playhead} playhead
   * @param {number} nowMs
   */
  cancelled({ dropped_ms }, playhead, nowMs) {
    if (!(dropped_ms > 0)) return;
    this.#release(playhead, nowMs);
    this.#pending = this.#pending.filter((piece) => this.#msUntilHeard(piece, playhead, nowMs) < IN_FLIGHT_MS);
    for (const piece of this.#pending.splice(0)) this.#hear(piece, nowMs);
    this.#cut();
  }

  /**
   * Let time pass; call it some twenty times a second.
   *
   * @param {import('./playhead.js').Playhead} playhead
   * @param {number} agentQuietMs How long the agent's voice was not heard.
   * @param {number} nowMs
   */
  tick(playhead, agentQuietMs, nowMs) {
    this.hear(playhead, nowMs);
    this.#settleInterruption(playhead, agentQuietMs, nowMs);
    const sinceWordMs = nowMs - this.#lastWordMs;
    const isOver = sinceWordMs > PAUSE_MS && agentQuietMs > PAUSE_MS;
    if (this.#agentTurn && isOver && (this.turns.at(-1) !== this.#agentTurn || sinceWordMs > LONG_PAUSE_MS)) {
      this.#endAgentTurn();
    }
    this.#forgetRemarks(nowMs);
  }

  /**
   * What was said last, for a page that goes on with the call. Words that are about to be heard count as heard.
   *
   * @param {number} nowMs
   * @returns {KeptTurn[]}
   */
  kept(nowMs) {
    for (const piece of this.#pending.splice(0)) this.#hear(piece, nowMs);
    let first = this.turns.length;
    for (let chars = 0; first > 0; first--) {
      chars += keptChars(this.turns[first - 1]);
      if (chars > MAX_KEPT_CHARS) break;
    }
    return this.turns
      .slice(first)
      .map(({ side, words, interrupted, spokeMs, startedMs }) => ({ side, words, interrupted, spokeMs, agoMs: nowMs - startedMs }));
  }

  /**
   * @param {KeptTurn[]} turns What an earlier page kept.
   * @param {number} nowMs
   * @param {number} [left] How many turns were said before them.
   */
  restore(turns, nowMs, left = 0) {
    this.left = left;
    for (const { side, words, interrupted, spokeMs, agoMs } of turns) {
      const turn = Object.assign(this.#newTurn(side, nowMs - agoMs), { words, interrupted, spokeMs, final: true });
      this.#onChange(turn, 'changed');
    }
  }

  /** The call is over: what was not heard never will be. The words of another may follow. */
  end() {
    this.#pending = [];
    this.#endAgentTurn();
    for (const remark of [...this.#remarks]) {
      if (!remark.turn.words.length && (remark.turn.spokeMs === null || this.#userHasWords)) this.#drop(remark);
      else this.#finish(remark.turn);
    }
    this.#remarks = [];
    this.#userHasWords = false;
    this.#interruptedMs = null;
  }

  /**
   * The words that are due become heard; `tick` does the same. A page whose words light up with their sound comes back
   * when the next one is due.
   *
   * @param {import('./playhead.js').Playhead} playhead
   * @param {number} nowMs
   * @returns {number | null} Milliseconds until the next word that has arrived will be heard; null where there is none.
   */
  hear(playhead, nowMs) {
    this.#release(playhead, nowMs);
    return this.#pending.length ? this.#msUntilHeard(this.#pending[0], playhead, nowMs) : null;
  }

  /**
   * @param {import('./playhead.js').Playhead} playhead
   * @param {number} nowMs
   */
  #release(playhead, nowMs) {
    // In order: a piece never overtakes the one before it.
    while (this.#pending.length && this.#msUntilHeard(this.#pending[0], playhead, nowMs) <= 0) {
      this.#hear(/** @type {Piece} */ (this.#pending.shift()), nowMs);
    }
  }

  /**
   * @param {Piece} piece
   * @param {import('./playhead.js').Playhead} playhead
   * @param {number} nowMs
   */
  #msUntilHeard({ rtpTimestamp, arrivedMs }, playhead, nowMs) {
    const ms = rtpTimestamp === null ? null : playhead.msUntil(rtpTimestamp, nowMs);
    if (ms === null || ms > MAX_AHEAD_MS) return arrivedMs + FIXED_DELAY_MS - nowMs;
    return ms + this.#wordAfterMs;
  }

  /**
   * @param {Piece} piece
   * @param {number} nowMs
   */
  #hear({ text }, nowMs) {
    let turn = this.#agentTurn;
    for (const part of text.match(/\s+|\S+/g) ?? []) {
      if (/^\s/.test(part)) {
        this.#wordOpen = false;
        continue;
      }
      if (!turn) {
        turn = this.#agentTurn = this.#newTurn('agent', nowMs);
        this.#wordOpen = false;
      }
      const last = turn.words.at(-1);
      if (this.#wordOpen && last) last.text += part;
      else turn.words.push({ text: part, cut: false });
      this.#wordOpen = true;
      this.#lastWordMs = nowMs;
    }
    if (!turn) return;
    this.#expect(turn);
    this.#onChange(turn, 'changed');
  }

  /**
   * What is pending, as words of a turn that has begun.
   *
   * @param {Turn} turn
   * @returns {boolean} Whether that is anything else than before.
   */
  #expect(turn) {
    const before = [turn.rest, ...turn.coming].join(' ');
    const text = this.#pending.slice(0, MAX_COMING_PIECES).map((piece) => piece.text).join('');
    turn.rest = (this.#wordOpen && turn.words.length && /^\S+/.exec(text)?.[0]) || '';
    turn.coming = text.slice(turn.rest.length).match(/\S+/g) ?? [];
    return [turn.rest, ...turn.coming].join(' ') !== before;
  }

  /**
   * @param {import('./playhead.js').Playhead} playhead
   * @param {number} agentQuietMs
   * @param {number} nowMs
   */
  #settleInterruption(playhead, agentQuietMs, nowMs) {
    const sinceMs = this.#interruptedMs === null ? null : nowMs - this.#interruptedMs;
    if (sinceMs === null) return;
    const untilWordMs = this.#pending.length ? this.#msUntilHeard(this.#pending[0], playhead, nowMs) : Infinity;
    const silenced = agentQuietMs >= SILENCED_MS && sinceMs >= SILENCED_MS;
    if (silenced && agentQuietMs + untilWordMs >= SILENCED_PAUSE_MS) this.#cut();
    else if (sinceMs > SILENCED_WITHIN_MS) this.#interruptedMs = null; // it went on speaking: a remark, not a cut
  }

  #cut() {
    this.#interruptedMs = null;
    const turn = this.#agentTurn;
    const word = turn?.words.at(-1);
    if (!turn || !word) return;
    word.cut = true;
    turn.interrupted = true;
    this.#endAgentTurn();
  }

  #endAgentTurn() {
    if (this.#agentTurn) this.#finish(this.#agentTurn);
    this.#agentTurn = null;
  }

  /** @param {Turn} turn */
  #finish(turn) {
    if (turn.final) return;
    turn.coming = [];
    turn.rest = '';
    turn.final = true;
    this.#onChange(turn, 'final');
  }

  /**
   * @param {number} item
   * @param {number} endMs
   */
  #remarkOf(item, endMs) {
    const known = this.#remarks.find((remark) => remark.item === item);
    // Words belong to the latest remark without any that began before they ended.
    return known ?? this.#remarks.filter((remark) => remark.item === null && remark.startMs <= endMs).at(-1);
  }

  /** @param {number} nowMs */
  #forgetRemarks(nowMs) {
    for (const remark of [...this.#remarks]) {
      if (remark.stopMs === null || nowMs - remark.stoppedAtMs < WORDS_LATE_MS) continue;
      if (!remark.turn.words.length && this.#userHasWords) {
        this.#drop(remark);
      } else {
        this.#remarks.splice(this.#remarks.indexOf(remark), 1);
        this.#finish(remark.turn);
      }
    }
  }

  /** @param {Remark} remark */
  #drop(remark) {
    this.#remarks = this.#remarks.filter((other) => other !== remark);
    this.turns = this.turns.filter((turn) => turn !== remark.turn);
    this.#onChange(remark.turn, 'removed');
  }

  /**
   * @param {Turn['side']} side
   * @param {number} nowMs
   * @returns {Turn}
   */
  #newTurn(side, nowMs) {
    /** @type {Turn} */
    const turn = { id: this.#nextId++, side, words: [], coming: [], rest: '', final: false, interrupted: false, startedMs: nowMs, spokeMs: null };
    this.turns.push(turn);
    if (this.turns.length > MAX_TURNS) this.#leaveOldest();
    return turn;
  }

  /** Not one that still goes on, if there is another. */
  #leaveOldest() {
    const oldest = Math.max(0, this.turns.findIndex(({ final }) => final));
    const [turn] = this.turns.splice(oldest, 1);
    this.left += 1;
    this.#onChange(turn, 'left');
  }
}

/** @param {Turn} turn */
function keptChars({ words }) {
  return words.reduce((chars, { text }) => chars + KEPT_WORD_CHARS + text.length, KEPT_TURN_CHARS);
}
