/**
 * What the call is doing, as one word for people. A pure state machine: facts go in, the state comes out.
 *
 *     ready ─start→ asking ─microphone→ connecting ─connected→ preparing ─live→ listening ⇄ hearing
 *       ↑                                                                         ⇅   speaking, interrupted
 *       └──────── start again ─────────── ended, failed ←── any                reconnecting ←resume─ ready, failed
 *
 * While live, several things are true at once (nobody takes turns): the user speaks, the agent speaks. The state names
 * what matters most: interrupted, then speaking, then hearing, then listening.
 */

/**
 * @typedef {'ready' | 'asking' | 'connecting' | 'preparing' | 'live' | 'reconnecting' | 'ended' | 'failed'} Phase
 * @typedef {'listening' | 'hearing' | 'speaking' | 'interrupted'} Activity
 * @typedef {Exclude<Phase, 'live'> | Activity} CallState
 */

const INTERRUPTED_SHOWN_MS = 1_500;

/** @type {Record<Phase, Phase[]>} */
const NEXT = {
  ready: ['asking', 'reconnecting'],
  asking: ['connecting', 'ended', 'failed'],
  connecting: ['preparing', 'live', 'ended', 'failed'],
  preparing: ['live', 'reconnecting', 'ended', 'failed'],
  live: ['reconnecting', 'ended', 'failed'],
  reconnecting: ['live', 'ended', 'failed'],
  ended: ['asking'],
  failed: ['asking', 'reconnecting'],
};

export class Call {
  /** @type {Phase} */
  #phase = 'ready';
  #userSpeaks = false;
  #agentSpeaks = false;
  #interruptedMs = -Infinity;
  #nowMs = 0;
  /** @type {number | null} */
  #liveSinceMs = null;

  get phase() {
    return this.#phase;
  }

  /** Between the gesture that starts a call and its end. */
  get isActive() {
    return !['ready', 'ended', 'failed'].includes(this.#phase);
  }

  /** @returns {CallState} */
  get state() {
    if (this.#phase !== 'live') return this.#phase;
    if (this.#nowMs - this.#interruptedMs < INTERRUPTED_SHOWN_MS) return 'interrupted';
    if (this.#agentSpeaks) return 'speaking';
    return this.#userSpeaks ? 'hearing' : 'listening';
  }

  /** @returns {number | null} Since the agent could first be talked to. */
  get durationMs() {
    return this.#liveSinceMs === null ? null : this.#nowMs - this.#liveSinceMs;
  }

  /**
   * @param {Phase} phase
   * @param {number} nowMs
   * @returns {boolean} False where the step makes no sense from here: nothing changes then.
   */
  enter(phase, nowMs) {
    if (!NEXT[this.#phase].includes(phase)) return false;
    this.#phase = phase;
    this.#nowMs = nowMs;
    if (phase === 'asking') {
      this.#userSpeaks = this.#agentSpeaks = false;
      this.#interruptedMs = -Infinity;
      this.#liveSinceMs = null;
    }
    if (phase === 'live') this.#liveSinceMs ??= nowMs;
    return true;
  }

  /**
   * Go on with a call that has been live on an earlier page.
   *
   * @param {number} durationMs So long.
   * @param {number} nowMs
   * @returns {boolean} False where there is a call already, or one has ended.
   */
  resume(durationMs, nowMs) {
    if (this.#phase !== 'ready' && this.#phase !== 'failed') return false;
    this.#liveSinceMs = nowMs - durationMs;
    return this.enter('reconnecting', nowMs);
  }

  /** @param {boolean} speaks */
  user(speaks) {
    this.#userSpeaks = speaks;
  }

  /** @param {number} nowMs */
  interrupted(nowMs) {
    this.#interruptedMs = nowMs;
  }

  /**
   * @param {boolean} agentSpeaks
   * @param {number} nowMs
   */
  tick(agentSpeaks, nowMs) {
    // An agent that starts to speak again has dealt with the interruption.
    if (agentSpeaks && !this.#agentSpeaks) this.#interruptedMs = -Infinity;
    this.#agentSpeaks = agentSpeaks;
    if (this.isActive) this.#nowMs = nowMs;
  }
}
