/**
 * What happens while two speak at once. People who listen hum along, and sometimes they cut in; in a conversation
 * without turns both are heard, and what became of it shows only a moment later.
 *
 * - An overlap: both spoke at once.
 * - A backchannel: an overlap by a short remark ("mm-hm"), and the other went on speaking.
 * - An interruption: an overlap after which the other soon fell silent, or audio was dropped because of it.
 *
 * Every overlap begins as one and may turn into one of the others; what is too short to be heard as one is taken back.
 * Pure: facts go in with the time (milliseconds of one monotone clock), moments come out.
 *
 * @typedef {'user' | 'agent'} Side
 * @typedef {'overlap' | 'backchannel' | 'interruption'} Kind
 *
 * @typedef {object} Moment
 * @property {number} id
 * @property {Kind} kind
 * @property {Side} by Who spoke into the other's speech.
 * @property {number} startMs
 * @property {number | null} endMs Null while both speak.
 *
 * @typedef {{startMs: number, endMs: number | null}} Speech
 *
 * @typedef {object} Open A moment of which it is not settled what it is.
 * @property {Moment} moment
 * @property {Speech} into The remark that came into the other's speech.
 * @property {Speech} held The other's speech.
 * @property {boolean} barged The server took it for an interruption; whether the agent does shows when it falls silent.
 * @property {boolean} settled
 */

/** -48 dBFS: as the meters see it. */
const LOUD = 10 ** (-48 / 20);
/** The agent has stopped when nothing was heard for so long; pauses between its sentences are shorter. */
const AGENT_QUIET_MS = 450;
/** A sound of the microphone at most so long before the server's event is where the speech began. */
const DETECTED_WITHIN_MS = 700;
const MIN_OVERLAP_MS = 150;
const SHORT_REMARK_MS = 1_000;
/** Nobody falls silent for what began less than this before. */
const REACTION_MS = 400;
/** Soon: without and with a word of the server that it was an interruption. */
const SILENCED_WITHIN_MS = 1_200;
const BARGED_WITHIN_MS = 1_800;
/** An agent that cut in goes on for so long when the user has fallen silent; otherwise the two only ended together. */
const FLOOR_MS = 700;
/** Somebody who goes on for so long after a remark was not stopped by it. */
const WENT_ON_MS = 450;

/** @type {Record<Kind, number>} */
export const NONE = { overlap: 0, backchannel: 0, interruption: 0 };

export class TurnTaking {
  counts;
  #nextId = 1;
  /** @type {Record<Side, Speech | null>} */
  #speech = { user: null, agent: null };
  /** @type {Record<Side, number>} */
  #loudAtMs = { user: -Infinity, agent: -Infinity };
  /** Since when the microphone has not been quiet. */
  #userLoudSinceMs = 0;
  #userAudioMs = 0;
  /** @type {Moment | null} */
  #both = null;
  /** @type {Open[]} */
  #open = [];
  /** What the server has told last. */
  #told = { bargeInMs: -Infinity, cancelledMs: -Infinity };
  #onMoment;

  /**
   * @param {(moment: Moment, change: 'began' | 'changed' | 'removed') => void} [onMoment]
   * @param {Record<Kind, number>} [counts] Of the same conversation so far.
   */
  constructor(onMoment = () => {}, counts = NONE) {
    this.#onMoment = onMoment;
    this.counts = { ...counts };
  }

  /**
   * The server's `input.speech_started`.
   *
   * @param {{audio_ms: number}} event
   * @param {number} nowMs
   */
  userStarted({ audio_ms }, nowMs) {
    if (this.#speech.user?.endMs === null) return;
    const soundMs = this.#loudAtMs.user > nowMs - DETECTED_WITHIN_MS ? this.#userLoudSinceMs : nowMs;
    this.#speech.user = { startMs: Math.max(soundMs, nowMs - DETECTED_WITHIN_MS), endMs: null };
    this.#userAudioMs = audio_ms;
    this.#settle(nowMs);
  }

  /**
   * The server's `input.speech_stopped`.
   *
   * @param {{audio_ms: number}} event
   * @param {number} nowMs
   */
  userStopped({ audio_ms }, nowMs) {
    const speech = this.#speech.user;
    if (speech?.endMs !== null) return;
    speech.endMs = Math.min(nowMs, speech.startMs + Math.max(0, audio_ms - this.#userAudioMs));
    this.#settle(nowMs);
  }

  /** The server's `barge_in`: the user spoke over the agent for a while. @param {number} nowMs */
  bargeIn(nowMs) {
    this.#told.bargeInMs = nowMs;
    this.#settle(nowMs);
  }

  /**
   * The server's `response.cancelled`.
   *
   * @param {{dropped_ms: number}} event
   * @param {number} nowMs
   */
  cancelled({ dropped_ms }, nowMs) {
    if (!(dropped_ms > 0)) return;
    this.#told.cancelledMs = nowMs;
    this.#settle(nowMs);
    const { user, agent } = this.#speech;
    if (this.#told.cancelledMs !== nowMs || !user || user.endMs !== null) return;
    // It was quick: the agent stopped before both were heard together for long.
    this.#told.cancelledMs = -Infinity;
    if (agent) this.#begin(agent, user, Math.max(agent.startMs, Math.min(user.startMs, nowMs)), nowMs, true);
  }

  /**
   * Both levels as they are heard, linear, 0..1; about ten times a second. Time passes with them.
   *
   * @param {{user: number, agent: number, nowMs: number}} levels
   */
  levels({ user, agent, nowMs }) {
    if (user > LOUD) {
      if (nowMs - this.#loudAtMs.user > 250) this.#userLoudSinceMs = nowMs;
      this.#loudAtMs.user = nowMs;
    }
    const speech = this.#speech;
    if (agent > LOUD) {
      this.#loudAtMs.agent = nowMs;
      if (speech.agent?.endMs !== null) speech.agent = { startMs: nowMs, endMs: null };
    } else if (speech.agent?.endMs === null && nowMs - this.#loudAtMs.agent >= AGENT_QUIET_MS) {
      speech.agent.endMs = this.#loudAtMs.agent;
    }
    this.#settle(nowMs);
  }

  /** @param {number} nowMs */
  #settle(nowMs) {
    const { user, agent } = this.#speech;
    if (!this.#both && user && agent && user.endMs === null && agent.endMs === null) {
      const startMs = Math.max(user.startMs, agent.startMs);
      if (this.#loudAtMs.agent - startMs >= MIN_OVERLAP_MS) {
        if (user.startMs >= agent.startMs) this.#begin(agent, user, startMs, null, false);
        else this.#begin(user, agent, startMs, null, false);
      }
    }
    for (const open of [...this.#open]) {
      const { moment, into, held } = open;
      open.barged ||= moment.by === 'user' && this.#told.bargeInMs >= moment.startMs;
      if (moment.endMs === null && (into.endMs !== null || held.endMs !== null)) {
        moment.endMs = Math.min(into.endMs ?? Infinity, held.endMs ?? Infinity);
        if (this.#both === moment) this.#both = null;
        if (moment.endMs - moment.startMs < MIN_OVERLAP_MS) {
          this.#close(open);
          this.counts.overlap -= 1;
          this.#onMoment(moment, 'removed');
          continue;
        }
        this.#onMoment(moment, 'changed');
      }
      const kind = open.settled ? null : this.#judge(open, nowMs);
      open.settled ||= kind !== null;
      if (kind !== null && kind !== 'overlap') this.#name(moment, kind);
      if (open.settled && moment.endMs !== null) this.#close(open);
    }
  }

  /**
   * @param {Open} open
   * @param {number} nowMs
   * @returns {Kind | null} Null: wait and see.
   */
  #judge({ moment, into, held, barged }, nowMs) {
    if (moment.by === 'user' && this.#told.cancelledMs >= moment.startMs) {
      this.#told.cancelledMs = -Infinity;
      return 'interruption';
    }
    const isShort = into.endMs !== null && into.endMs - into.startMs < SHORT_REMARK_MS;
    if (held.endMs === null) {
      // A silence shows a little after it began.
      if (into.endMs === null || nowMs - into.endMs < WENT_ON_MS + AGENT_QUIET_MS) return null;
      return isShort ? 'backchannel' : 'overlap';
    }
    const silencedAfterMs = held.endMs - moment.startMs;
    if (isShort && into.endMs !== null && held.endMs - into.endMs >= WENT_ON_MS) return 'backchannel';
    if (barged && silencedAfterMs <= BARGED_WITHIN_MS) return 'interruption';
    if (silencedAfterMs < REACTION_MS || silencedAfterMs > SILENCED_WITHIN_MS) return 'overlap';
    if (moment.by === 'user') return 'interruption';
    if (into.endMs !== null) return into.endMs - held.endMs >= FLOOR_MS ? 'interruption' : 'overlap';
    return nowMs - held.endMs >= FLOOR_MS ? 'interruption' : null;
  }

  /**
   * @param {Speech} held
   * @param {Speech} into
   * @param {number} startMs
   * @param {number | null} endMs
   * @param {boolean} isInterruption
   */
  #begin(held, into, startMs, endMs, isInterruption) {
    /** @type {Moment} */
    const moment = { id: this.#nextId++, kind: 'overlap', by: into === this.#speech.user ? 'user' : 'agent', startMs, endMs };
    this.counts.overlap += 1;
    this.#onMoment(moment, 'began');
    if (isInterruption) return this.#name(moment, 'interruption');
    this.#both = moment;
    this.#open.push({ moment, into, held, barged: false, settled: false });
  }

  /**
   * @param {Moment} moment
   * @param {Kind} kind
   */
  #name(moment, kind) {
    moment.kind = kind;
    this.counts[kind] += 1;
    this.#onMoment(moment, 'changed');
  }

  /** @param {Open} open */
  #close(open) {
    this.#open = this.#open.filter((other) => other !== open);
  }
}
