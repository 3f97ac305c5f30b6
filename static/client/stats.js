/**
 * The few figures of an RTCStatsReport that a voice call needs, in one flat object.
 *
 * @typedef {object} CallStats
 * @property {number | null} microphoneLevel 0..1; null where the browser does not tell.
 * @property {number} agentLevel 0..1
 * @property {number | null} roundTripMs
 * @property {number} jitterBufferDelayS Sum over all samples played, as in getStats.
 * @property {number} jitterBufferSamples
 * @property {number} playoutDelayS Sum of the sound device's delay over `playoutSamples`.
 * @property {number} playoutSamples
 * @property {number} packetsReceived
 * @property {number} packetsLost
 * @property {number} concealedSamples
 */

/**
 * @param {Iterable<[string, any]>} report An RTCStatsReport, or any map of such objects.
 * @returns {CallStats}
 */
export function readStats(report) {
  /** @type {CallStats} */
  const stats = {
    microphoneLevel: null,
    agentLevel: 0,
    roundTripMs: null,
    jitterBufferDelayS: 0,
    jitterBufferSamples: 0,
    playoutDelayS: 0,
    playoutSamples: 0,
    packetsReceived: 0,
    packetsLost: 0,
    concealedSamples: 0,
  };
  let reportedRoundTripMs = null;
  for (const [, entry] of report) {
    switch (entry.type) {
      case 'media-source':
        if (entry.kind === 'audio') stats.microphoneLevel = entry.audioLevel ?? null;
        break;
      case 'inbound-rtp':
        if (entry.kind === 'audio') readInbound(stats, entry);
        break;
      case 'media-playout':
        stats.playoutDelayS = entry.totalPlayoutDelay ?? 0;
        stats.playoutSamples = entry.totalSamplesCount ?? 0;
        break;
      case 'candidate-pair':
        if (entry.nominated && entry.state === 'succeeded' && entry.currentRoundTripTime !== undefined) {
          stats.roundTripMs = 1000 * entry.currentRoundTripTime;
        }
        break;
      case 'remote-inbound-rtp':
        if (entry.roundTripTime !== undefined) reportedRoundTripMs = 1000 * entry.roundTripTime;
        break;
    }
  }
  stats.roundTripMs ??= reportedRoundTripMs;
  return stats;
}

/**
 * @param {CallStats} stats
 * @param {any} entry
 */
function readInbound(stats, entry) {
  stats.agentLevel = entry.audioLevel ?? 0;
  stats.jitterBufferDelayS = entry.jitterBufferDelay ?? 0;
  stats.jitterBufferSamples = entry.jitterBufferEmittedCount ?? 0;
  stats.packetsReceived = entry.packetsReceived ?? 0;
  stats.packetsLost = entry.packetsLost ?? 0;
  stats.concealedSamples = entry.concealedSamples ?? 0;
}
