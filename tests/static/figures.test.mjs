import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Figures, KEPT, path } from '../../static/page/figures.js';

const stats = (changes = {}) => ({ packetsReceived: 0, packetsLost: 0, roundTripMs: 12, ...changes });

test('each reading is kept for a minute', () => {
  const figures = new Figures();
  for (let second = 0; second < KEPT + 5; second++) {
    figures.serverStats({ tick_ms: second, jitter_delay_ms: 20, loss: 0 });
    figures.read(stats());
  }
  assert.equal(figures.history('tick').length, KEPT);
  assert.equal(figures.now('tick'), KEPT + 4);
  assert.deepEqual(figures.summary('tick'), { least: 5, median: 35, most: 64 });
});

test('loss is that of the last second, and of what never came', () => {
  const figures = new Figures();
  figures.read(stats({ packetsReceived: 50 }));
  assert.equal(figures.now('lossDown'), 0);
  figures.read(stats({ packetsReceived: 95, packetsLost: 5 }));
  assert.equal(figures.now('lossDown'), 0.1);
  figures.read(stats({ packetsReceived: 146, packetsLost: 4 })); // one came late
  assert.equal(figures.now('lossDown'), 0);
  figures.read(stats({ packetsReceived: 10, packetsLost: 0 })); // another connection
  assert.equal(figures.now('lossDown'), null);
});

test('what nobody told is a gap, not a zero', () => {
  const figures = new Figures();
  figures.read(stats({ roundTripMs: null }));
  for (const figure of ['mouthToEar', 'roundTrip', 'jitterDelay', 'lossUp', 'tick']) assert.equal(figures.now(figure), null);
  assert.equal(figures.summary('tick'), null);
});

test('a graph ends at its right edge, scales to its top, and leaves gaps open', () => {
  const box = { width: 59, height: 10 };
  assert.equal(path([5, 10], 10, box), 'M58.0 5.0L59.0 0.0');
  assert.equal(path([20], 10, box), 'M59.0 0.0h.01');
  assert.equal(path([0, null, 0], 10, box), 'M57.0 10.0h.01M59.0 10.0h.01');
  assert.equal(path([null], 10, box), '');
});
