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
 * @property {string | null} localCandidate Type of this end's candidate in use: host, srflx, prflx or relay.
 * @property {string | null} remoteCandidate
 * @property {string | null} protocol Between this end and the next one: udp, tcp, or to a relay also tls.
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
    localCandidate: null,
    remoteCandidate: null,
    protocol: null,
  };
  let reportedRoundTripMs = null;
  const entries = new Map(report);
  for (const entry of entries.values()) {
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
        if (entry.nominated && entry.state === 'succeeded') readPair(stats, entry, entries);
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
 * @param {any} pair
 * @param {Map<string, any>} entries
 */
function readPair(stats, pair, entries) {
  if (pair.currentRoundTripTime !== undefined) stats.roundTripMs = 1000 * pair.currentRoundTripTime;
  const local = entries.get(pair.localCandidateId);
  stats.localCandidate = local?.candidateType ?? null;
  stats.remoteCandidate = entries.get(pair.remoteCandidateId)?.candidateType ?? null;
  stats.protocol = local?.relayProtocol ?? local?.protocol ?? null;
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
