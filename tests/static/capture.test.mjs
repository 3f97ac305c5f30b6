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
  const parts = { refuse: '', unsendable: false };
  const source = async () => {
    if (parts.refuse) throw Object.assign(new Error('no'), { name: parts.refuse });
    given.push(new FakeStream());
    return given.at(-1);
  };
  const stream = new FakeStream();
  const capture = new Capture(asks ? source : stream, {
    state: (state, code) => told.push(code ? `${state}: ${code}` : state),
    track: async (track) => {
      if (parts.unsendable) throw new DOMException('no', 'InvalidStateError');
      sent.push(track);
    },
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

test('another microphone takes over without a break, muted as the one before was', async () => {
  const { capture, given, told, sent } = await scene();
  capture.mute(true);
  const other = new FakeStream();
  const usedBefore = [];
  await capture.use(async () => {
    usedBefore.push(given[0].track.stopped);
    return other;
  });
  assert.deepEqual(usedBefore, [false]);
  assert.deepEqual(sent, [other.track]);
  assert.ok(given[0].track.stopped && !other.track.stopped);
  assert.equal(other.track.enabled, false);
  assert.equal(capture.stream, other);
  assert.deepEqual(told, ['live']);
  capture.close();
  assert.ok(other.track.stopped);
});

test('when the other microphone is lost, it is asked for where it came from', async () => {
  const { capture, given } = await scene();
  const others = [];
  await capture.use(async () => others[others.push(new FakeStream()) - 1]);
  others[0].track.happens('ended');
  await settle();
  assert.equal(given.length, 1);
  assert.equal(capture.stream, others[1]);
});

test('one that cannot be had leaves the one before in its place', async () => {
  const { capture, given, told, sent } = await scene();
  const busy = () => Promise.reject(Object.assign(new Error('no'), { name: 'NotReadableError' }));
  await assert.rejects(capture.use(busy), { name: 'CallError', code: 'microphone_busy' });
  assert.equal(capture.stream, given[0]);
  assert.equal(given[0].track.stopped, false);
  assert.deepEqual([told, sent], [[], []]);
  given[0].track.happens('ended'); // and is still watched over
  await settle();
  assert.deepEqual(told, ['lost', 'live']);
});

test('of two that are asked for at once, the last is heard at last', async () => {
  const { capture, given, sent } = await scene();
  const [slow, quick] = [new FakeStream(), new FakeStream()];
  await Promise.all([
    capture.use(async () => (await settle(), slow)),
    capture.use(async () => quick),
  ]);
  assert.deepEqual(sent, [slow.track, quick.track]);
  assert.ok(given[0].track.stopped && slow.track.stopped && !quick.track.stopped);
});

test('a stream of the page may take the place of a microphone, and stays the page’s', async () => {
  const { capture, given, stream } = await scene();
  await capture.use(stream);
  assert.ok(given[0].track.stopped);
  await capture.use(async () => new FakeStream());
  assert.equal(stream.track.stopped, false);
});

test('a call that is over, or only listens, takes no other microphone', async () => {
  const { capture, given } = await scene();
  const late = new FakeStream();
  const used = capture.use(async () => (capture.close(), late));
  await assert.rejects(used, { code: 'no_microphone' });
  assert.ok(late.track.stopped && given[0].track.stopped);
  await assert.rejects(capture.use(late), { code: 'no_microphone' });
  const listening = new Capture(null, { state() {}, async track() {} });
  await listening.open();
  await assert.rejects(listening.use(late), { code: 'no_microphone' });
});

test('one that cannot be sent is let go, and the one before stays', async () => {
  const parts = await scene();
  const { capture, given, told } = parts;
  parts.unsendable = true;
  const other = new FakeStream();
  await assert.rejects(capture.use(async () => other), { name: 'CallError', code: 'microphone_failed' });
  assert.equal(capture.stream, given[0]);
  assert.ok(other.track.stopped && !given[0].track.stopped);
  given[0].track.happens('ended');
  await settle();
  assert.deepEqual(told, ['lost', 'lost: microphone_failed']);
  assert.ok(given[1].track.stopped);
  parts.unsendable = false;
  assert.equal(await capture.reopen(), true);
  assert.equal(capture.stream, given[2], 'asked for where the first came from');
  capture.close();
  assert.ok([...given.slice(1), other].every(({ track }) => track.stopped));
});
