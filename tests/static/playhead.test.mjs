import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Playhead, rtpDistance } from '../../static/client/playhead.js';

test('distances are signed and survive the wrap of 32 bits', () => {
  assert.equal(rtpDistance(10, 4), 6);
  assert.equal(rtpDistance(4, 10), -6);
  assert.equal(rtpDistance(0x10, 0xffff_fff0), 0x20);
  assert.equal(rtpDistance(0xffff_fff0, 0x10), -0x20);
});

test('nothing is known before the first reading', () => {
  const playhead = new Playhead();
  playhead.update(null, 0);
  playhead.update(undefined, 0);
  assert.equal(playhead.position(10), null);
  assert.equal(playhead.msUntil(0, 10), null);
});

test('it runs on between two readings, but not without end', () => {
  const playhead = new Playhead();
  playhead.update(48_000, 100);
  assert.equal(playhead.position(110), 48_480);
  assert.equal(playhead.position(5_000), playhead.position(140));
});

test('a reading that stands still is not a new one', () => {
  const playhead = new Playhead();
  playhead.update(48_000, 100);
  playhead.update(48_000, 120);
  assert.equal(playhead.position(120), 48_960);
});

test('it tells how long until a sample is heard, across the wrap', () => {
  const playhead = new Playhead();
  playhead.update(0xffff_ffff - 479, 0);
  assert.equal(playhead.msUntil(480, 0), 20);
  assert.equal(playhead.msUntil(480, 30), -10);
});
