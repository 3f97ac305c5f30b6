/**
 * Sound levels for the eye: decibels, quick to rise, slow to fall; and whether somebody is speaking.
 */

const FLOOR_DB = -55;
const ATTACK_MS = 40;
const RELEASE_MS = 260;
const SPEAKING_DB = -48;
const HOLD_MS = 350;

/**
 * @param {number} level Linear, 0..1, full scale.
 * @returns {number} 0..1 on a scale of decibels.
 */
export function loudness(level) {
  if (!(level > 0)) return 0;
  return Math.min(1, Math.max(0, 1 - (20 * Math.log10(level)) / FLOOR_DB));
}

/** One voice's level. */
export class Level {
  #target = 0;
  #shown = 0;
  #shownAtMs = 0;
  #loudAtMs = -Infinity;

  /**
   * @param {number} level Linear, 0..1.
   * @param {number} nowMs
   */
  measure(level, nowMs) {
    this.#target = loudness(level);
    if (level > 10 ** (SPEAKING_DB / 20)) this.#loudAtMs = nowMs;
  }

  /**
   * @param {number} nowMs
   * @returns {number} 0..1, smoothed.
   */
  shown(nowMs) {
    const elapsedMs = Math.min(Math.max(nowMs - this.#shownAtMs, 0), 200);
    this.#shownAtMs = nowMs;
    const timeMs = this.#target > this.#shown ? ATTACK_MS : RELEASE_MS;
    this.#shown += (this.#target - this.#shown) * (1 - Math.exp(-elapsedMs / timeMs));
    return this.#shown;
  }

  /** @param {number} nowMs */
  isSpeaking(nowMs) {
    return this.quietMs(nowMs) < HOLD_MS;
  }

  /**
   * @param {number} nowMs
   * @returns {number} How long nothing was heard; Infinity if nothing ever was.
   */
  quietMs(nowMs) {
    return nowMs - this.#loudAtMs;
  }

  reset() {
    this.#target = 0;
    this.#loudAtMs = -Infinity;
  }
}
