import assert from 'node:assert/strict';
import { test } from 'node:test';

import { readStats } from '../../static/client/stats.js';

const report = (...entries) => new Map(entries.map((entry, index) => [`id${index}`, entry]));

test('the figures of a call are read', () => {
  const stats = readStats(
    report(
      { type: 'media-source', kind: 'audio', audioLevel: 0.25 },
      {
        type: 'inbound-rtp', kind: 'audio', audioLevel: 0.5, jitterBufferDelay: 12, jitterBufferEmittedCount: 48_000,
        packetsReceived: 50, packetsLost: 2, concealedSamples: 960,
      },
      { type: 'media-playout', totalPlayoutDelay: 480, totalSamplesCount: 48_000 },
      { type: 'candidate-pair', nominated: true, state: 'succeeded', currentRoundTripTime: 0.021 },
      { type: 'candidate-pair', nominated: false, state: 'succeeded', currentRoundTripTime: 0.9 },
      { type: 'remote-inbound-rtp', roundTripTime: 0.03 },
      { type: 'codec' },
    ),
  );
  assert.deepEqual(stats, {
    microphoneLevel: 0.25,
    agentLevel: 0.5,
    roundTripMs: 21,
    jitterBufferDelayS: 12,
    jitterBufferSamples: 48_000,
    playoutDelayS: 480,
    playoutSamples: 48_000,
    packetsReceived: 50,
    packetsLost: 2,
    concealedSamples: 960,
    localCandidate: null,
    remoteCandidate: null,
    protocol: null,
  });
});

test('the round trip of the receiver reports stands in for that of the connectivity checks', () => {
  assert.equal(readStats(report({ type: 'remote-inbound-rtp', roundTripTime: 0.03 })).roundTripMs, 30);
});

test('an empty report is a call in which nothing happened', () => {
  const stats = readStats(report());
  assert.equal(stats.roundTripMs, null);
  assert.equal(stats.microphoneLevel, null);
  assert.equal(stats.packetsReceived, 0);
});

test('the way that a call takes is known by its candidates', () => {
  const pair = { type: 'candidate-pair', nominated: true, state: 'succeeded', localCandidateId: 'here', remoteCandidateId: 'there' };
  const way = (local) => {
    const { localCandidate, remoteCandidate, protocol } = readStats(
      new Map([['pair', pair], ['here', local], ['there', { type: 'remote-candidate', candidateType: 'host' }]]),
    );
    return [localCandidate, remoteCandidate, protocol];
  };
  assert.deepEqual(way({ candidateType: 'host', protocol: 'udp' }), ['host', 'host', 'udp']);
  assert.deepEqual(way({ candidateType: 'relay', protocol: 'udp', relayProtocol: 'tls' }), ['relay', 'host', 'tls']);
});
