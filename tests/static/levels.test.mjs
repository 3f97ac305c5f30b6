import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Level, loudness } from '../../static/page/levels.js';

test('loudness is decibels between silence and full scale', () => {
  assert.equal(loudness(0), 0);
  assert.equal(loudness(NaN), 0);
  assert.equal(loudness(1), 1);
  assert.ok(Math.abs(loudness(10 ** (-27.5 / 20)) - 0.5) < 1e-9);
  assert.equal(loudness(5), 1);
});

test('a level rises faster than it falls and stays within 0 and 1', () => {
  const level = new Level();
  level.measure(1, 0);
  level.shown(0);
  const risen = level.shown(50);
  level.measure(0, 50);
  const fallen = risen - level.shown(100);
  assert.ok(risen > 0.5 && risen <= 1);
  assert.ok(fallen > 0 && fallen < risen / 2);
});

test('somebody speaks until it was quiet for a while', () => {
  const level = new Level();
  assert.equal(level.isSpeaking(0), false);
  level.measure(0.2, 1_000);
  level.measure(0, 1_100);
  assert.equal(level.isSpeaking(1_200), true);
  assert.equal(level.isSpeaking(1_400), false);
  assert.equal(level.quietMs(1_400), 400);
});

test('the hiss of a quiet line is not speech', () => {
  const level = new Level();
  level.measure(0.001, 0);
  assert.equal(level.isSpeaking(0), false);
});
