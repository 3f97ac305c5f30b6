import assert from 'node:assert/strict';
import { test } from 'node:test';

import { LatencyEstimator } from '../../static/page/latency.js';

const browser = (changes = {}) => ({
  microphoneLevel: 0, agentLevel: 0, roundTripMs: 10, jitterBufferDelayS: 0, jitterBufferSamples: 0, playoutDelayS: 0,
  playoutSamples: 0, packetsReceived: 0, packetsLost: 0, concealedSamples: 0, ...changes,
});
const server = { jitter_delay_ms: 22, tick_ms: 6, playout_delay_ms: 3, round_trip_ms: 99 };
const part = (estimate, name) => estimate.parts.find(({ part }) => part === name).ms;

test('nothing is claimed before both ends have spoken', () => {
  const latency = new LatencyEstimator();
  assert.equal(latency.estimate(browser()), null);
  assert.equal(latency.estimate(browser()), null);
  latency.serverStats(server);
  assert.notEqual(latency.estimate(browser()), null);
});

test('the figure is the sum of its parts', () => {
  const latency = new LatencyEstimator();
  latency.serverStats(server);
  latency.estimate(browser());
  const estimate = latency.estimate(browser({ jitterBufferDelayS: 1_440, jitterBufferSamples: 48_000 }));
  assert.equal(part(estimate, 'browserJitter'), 30);
  assert.equal(estimate.totalMs, 13 + 10 + 22 + 80 + 6 + 3 + 30 + 0);
});

test('delays are those since the last reading, and the last one holds where nothing was played', () => {
  const latency = new LatencyEstimator();
  latency.serverStats(server);
  latency.estimate(browser({ jitterBufferDelayS: 9_600, jitterBufferSamples: 48_000 }));
  const next = { jitterBufferDelayS: 9_600 + 960, jitterBufferSamples: 96_000 };
  assert.equal(part(latency.estimate(browser(next)), 'browserJitter'), 20);
  assert.equal(part(latency.estimate(browser(next)), 'browserJitter'), 20);
});

test('the server’s round trip stands in for the browser’s', () => {
  const latency = new LatencyEstimator();
  latency.serverStats(server);
  latency.estimate(browser());
  assert.equal(part(latency.estimate(browser({ roundTripMs: null })), 'network'), 99);
});
