import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';

import { Capture, RETURN_MS } from '../../static/client/capture.js';
import { FakeStream, settle, virtualTime } from './fakes.mjs';

let time;
beforeEach(() => (time = virtualTime()));
afterEach(() => {
  mock.timers.reset();
  mock.restoreAll();
});

/** A microphone that is given when asked for, unless `refuse` names an error. */
async function scene({ asks = true } = {}) {
  const given = [];
  const told = [];
  const sent = [];
  const parts = { refuse: '' };
  const source = async () => {
    if (parts.refuse) throw Object.assign(new Error('no'), { name: parts.refuse });
    given.push(new FakeStream());
    return given.at(-1);
  };
  const stream = new FakeStream();
  const capture = new Capture(asks ? source : stream, {
    state: (state, code) => told.push(code ? `${state}: ${code}` : state),
    track: async (track) => sent.push(track),
  });
  await capture.open();
  return Object.assign(parts, { capture, given, told, sent, stream });
}

test('a phone call interrupts the microphone, and the browser gives it back', async () => {
  const { given, told } = await scene();
  given[0].track.happens('mute');
  await time.advance(60_000);
  given[0].track.happens('unmute');
  assert.deepEqual(told, ['interrupted', 'live']);
  assert.equal(given.length, 1);
});

test('a microphone that does not come back by itself when the page is seen again is asked for', async () => {
  const { capture, given, told, sent } = await scene();
  given[0].track.happens('mute');
  capture.check();
  await time.advance(RETURN_MS - 20);
  assert.equal(given.length, 1);
  await time.advance(40);
  assert.deepEqual(told, ['interrupted', 'live']);
  assert.deepEqual(sent, [given[1].track]);
  assert.ok(given[0].track.stopped && !given[1].track.stopped);
  given[0].track.happens('ended'); // of the one that is gone nothing matters any more
  assert.deepEqual(told, ['interrupted', 'live']);
});

test('one that comes back in time is not asked for', async () => {
  const { capture, given } = await scene();
  given[0].track.happens('mute');
  capture.check();
  given[0].track.happens('unmute');
  await time.advance(5_000);
  assert.equal(given.length, 1);
});

test('a headset that is pulled out is replaced at once by what there is', async () => {
  const { given, told, sent } = await scene();
  given[0].track.happens('ended');
  await settle();
  assert.deepEqual(told, ['lost', 'live']);
  assert.deepEqual(sent, [given[1].track]);
});

test('where there is nothing else, the next device or the person brings it back', async () => {
  const parts = await scene();
  const { capture, given, told } = parts;
  parts.refuse = 'NotFoundError';
  given[0].track.happens('ended');
  await settle();
  assert.deepEqual(told, ['lost', 'lost: microphone_missing']);
  parts.refuse = 'NotAllowedError';
  assert.equal(await capture.reopen(), false);
  assert.equal(told.at(-1), 'lost: microphone_denied');
  parts.refuse = '';
  capture.check();
  await settle();
  assert.equal(told.at(-1), 'live');
});

test('who is muted stays muted with another microphone', async () => {
  const { capture, given } = await scene();
  capture.mute(true);
  given[0].track.happens('ended');
  await settle();
  assert.equal(given[1].track.enabled, false);
  capture.mute(false);
  assert.equal(given[1].track.enabled, true);
});

test('a stream of the page is neither asked for again nor stopped', async () => {
  const { capture, told, stream, sent } = await scene({ asks: false });
  stream.track.happens('ended');
  assert.equal(await capture.reopen(), false);
  capture.close();
  assert.deepEqual(told, ['lost']);
  assert.deepEqual(sent, []);
  assert.equal(stream.track.stopped, false);
});

test('it is asked for by one at a time, and a call that is over keeps none', async () => {
  const { capture, given, told } = await scene();
  const first = capture.reopen();
  assert.equal(capture.reopen(), first);
  capture.close();
  assert.equal(await first, false);
  assert.ok(given.every(({ track }) => track.stopped));
  assert.equal(given.length, 2);
  assert.deepEqual(told, []);
});
