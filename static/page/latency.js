/**
 * From the user's mouth to the earliest answer in the user's ear: an estimate, summed from what both ends measure.
 *
 * @typedef {import('../client/stats.js').CallStats} CallStats
 * @typedef {{jitter_delay_ms: number, tick_ms: number, playout_delay_ms?: number, round_trip_ms?: number | null}} ServerStats
 * @typedef {'codec' | 'network' | 'serverJitter' | 'frame' | 'engine' | 'playout' | 'browserJitter' | 'device'} Part
 * @typedef {{totalMs: number, parts: {part: Part, ms: number}[]}} LatencyEstimate
 */

/** Opus look-ahead of both directions. */
const CODEC_MS = 13;
/** The engine hears in frames: the first sample of one waits for the last. Packets of 20 ms lie inside it. */
const FRAME_MS = 80;

export class LatencyEstimator {
  /** @type {CallStats | null} */
  #previous = null;
  /** @type {ServerStats | null} */
  #server = null;
  #browserJitterMs = 0;
  #deviceMs = 0;

  /** @param {ServerStats} stats The event `session.stats`. */
  serverStats(stats) {
    this.#server = stats;
  }

  /**
   * @param {CallStats} stats Read about once a second: delays are taken over the time since the last reading.
   * @returns {LatencyEstimate | null} Null until both ends have said something.
   */
  estimate(stats) {
    const before = this.#previous;
    this.#previous = stats;
    if (before) {
      this.#browserJitterMs =
        meanMs(stats.jitterBufferDelayS - before.jitterBufferDelayS, stats.jitterBufferSamples - before.jitterBufferSamples) ??
        this.#browserJitterMs;
      this.#deviceMs =
        meanMs(stats.playoutDelayS - before.playoutDelayS, stats.playoutSamples - before.playoutSamples) ?? this.#deviceMs;
    }
    const server = this.#server;
    if (!before || !server) return null;
    /** @type {LatencyEstimate['parts']} */
    const parts = [
      { part: 'codec', ms: CODEC_MS },
      { part: 'network', ms: stats.roundTripMs ?? server.round_trip_ms ?? 0 },
      { part: 'serverJitter', ms: server.jitter_delay_ms },
      { part: 'frame', ms: FRAME_MS },
      { part: 'engine', ms: server.tick_ms },
      { part: 'playout', ms: server.playout_delay_ms ?? 0 },
      { part: 'browserJitter', ms: this.#browserJitterMs },
      { part: 'device', ms: this.#deviceMs },
    ];
    return { totalMs: parts.reduce((sum, { ms }) => sum + ms, 0), parts };
  }
}

/**
 * @param {number} delayS Sum of delays over `samples`.
 * @param {number} samples
 */
function meanMs(delayS, samples) {
  return samples > 0 && delayS >= 0 ? (1000 * delayS) / samples : null;
}
