import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Call } from '../../static/page/call.js';

function live() {
  const call = new Call();
  for (const phase of ['asking', 'connecting', 'preparing', 'live']) assert.ok(call.enter(phase, 0), phase);
  return call;
}

test('a call goes from the gesture to listening', () => {
  const call = new Call();
  assert.equal(call.state, 'ready');
  assert.equal(call.isActive, false);
  assert.equal(live().state, 'listening');
  assert.equal(live().isActive, true);
});

test('steps that make no sense change nothing', () => {
  const call = new Call();
  for (const phase of ['live', 'connecting', 'preparing', 'ended', 'failed']) {
    assert.equal(call.enter(phase, 0), false, phase);
  }
  assert.equal(call.state, 'ready');
});

test('a call can be started again from each of its ends', () => {
  for (const end of ['ended', 'failed']) {
    const call = live();
    call.enter(end, 10);
    assert.equal(call.isActive, false);
    assert.ok(call.enter('asking', 20));
    assert.equal(call.durationMs, null);
  }
});

test('while live the state names what matters most', () => {
  const call = live();
  call.user(true);
  assert.equal(call.state, 'hearing');
  call.tick(true, 100);
  assert.equal(call.state, 'speaking');
  call.interrupted(200);
  call.tick(true, 200);
  assert.equal(call.state, 'interrupted');
  call.tick(false, 1_800);
  assert.equal(call.state, 'hearing');
  call.user(false);
  assert.equal(call.state, 'listening');
});

test('an agent that speaks again is not interrupted any more', () => {
  const call = live();
  call.tick(true, 0);
  call.interrupted(100);
  call.tick(false, 300);
  assert.equal(call.state, 'interrupted');
  call.tick(true, 400);
  assert.equal(call.state, 'speaking');
});

test('a line that is held goes on, and its duration counts from the first word that was possible', () => {
  const call = live();
  call.enter('reconnecting', 1_000);
  assert.equal(call.state, 'reconnecting');
  call.enter('live', 4_000);
  call.tick(false, 5_000);
  assert.equal(call.durationMs, 5_000);
  call.enter('ended', 6_000);
  call.tick(false, 9_000);
  assert.equal(call.durationMs, 6_000);
});

test('a call that an earlier page left goes on, and so does its clock', () => {
  const call = new Call();
  assert.equal(call.resume(60_000, 1_000), true);
  assert.deepEqual([call.state, call.isActive], ['reconnecting', true]);
  call.enter('live', 2_000);
  call.tick(false, 3_000);
  assert.deepEqual([call.state, call.durationMs], ['listening', 62_000]);
  assert.equal(call.resume(0, 4_000), false);
  assert.equal(call.durationMs, 62_000);
});

test('an attempt to go on with a call can be repeated, until it has ended', () => {
  const call = new Call();
  call.resume(60_000, 1_000);
  call.enter('failed', 2_000);
  assert.ok(call.resume(60_000, 3_000));
  call.enter('live', 4_000);
  assert.equal(call.durationMs, 61_000);
  call.enter('ended', 5_000);
  assert.equal(call.resume(60_000, 6_000), false);
});
