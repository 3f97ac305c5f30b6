/**
 * Where in the agent's audio the listener's ear is, in RTP time (48 kHz, 32 bits, RFC 3550 section 5.1).
 *
 * The browser tells the RTP timestamp of the audio that it handed to the speaker last, in steps of one packet; between
 * two readings the playhead runs on with the clock, but not far, so that it stands still when the network does.
 */

export const TICKS_PER_MS = 48;
const MAX_COAST_MS = 40;

/**
 * Signed distance from `b` to `a` on the 32-bit circle, in ticks.
 *
 * @param {number} a
 * @param {number} b
 */
export function rtpDistance(a, b) {
  return (a - b) | 0;
}

export class Playhead {
  /** @type {number | null} */
  #timestamp = null;
  #readAtMs = 0;

  /**
   * @param {number | null | undefined} rtpTimestamp The newest reading; null where the browser gives none.
   * @param {number} nowMs
   */
  update(rtpTimestamp, nowMs) {
    if (rtpTimestamp === null || rtpTimestamp === undefined || rtpTimestamp === this.#timestamp) return;
    this.#timestamp = rtpTimestamp;
    this.#readAtMs = nowMs;
  }

  /**
   * @param {number} nowMs
   * @returns {number | null} 0..2**32-1, null before the first reading.
   */
  position(nowMs) {
    if (this.#timestamp === null) return null;
    const coastMs = Math.min(Math.max(nowMs - this.#readAtMs, 0), MAX_COAST_MS);
    return (this.#timestamp + Math.round(coastMs * TICKS_PER_MS)) >>> 0;
  }

  /**
   * How long until a sample is heard; negative once it was.
   *
   * @param {number} rtpTimestamp
   * @param {number} nowMs
   * @returns {number | null}
   */
  msUntil(rtpTimestamp, nowMs) {
    const position = this.position(nowMs);
    return position === null ? null : rtpDistance(rtpTimestamp, position) / TICKS_PER_MS;
  }
}
