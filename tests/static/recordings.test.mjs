import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Emitter } from '../../static/page/emitter.js';
import { LeaveGuard } from '../../static/page/leave_guard.js';
import { MAX_KEPT, Recordings } from '../../static/page/recordings.js';

const settle = () => new Promise((resolve) => setImmediate(resolve));

function scene(t) {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const call = { phase: 'ready', isActive: false };
  const conversation = Object.assign(new Emitter(), { call, client: null });
  const made = [];
  const newRecorder = () => {
    const number = made.length + 1;
    const recorder = { heard: [], hear: (streams) => recorder.heard.push(streams) };
    recorder.stop = async () => ({ blob: new Blob([`sound ${number}`]), suffix: '.webm' });
    made.push(recorder);
    return recorder;
  };
  const recordings = new Recordings(conversation, { newRecorder, name: (suffix) => `call${suffix}`, onChange() {} });
  const enter = (phase) => {
    Object.assign(call, { phase, isActive: !['ready', 'ended', 'failed'].includes(phase) });
    conversation.emit('state', phase);
  };
  const dial = () => {
    enter('asking');
    conversation.client = { microphone: 'mine', stream: 'its' };
    conversation.emit('client', conversation.client);
    enter('connecting');
  };
  const parts = { recordings, conversation, made, enter, dial, passes: (ms) => t.mock.timers.tick(ms) };
  parts.start = () => {
    conversation.emit('fresh');
    dial();
    enter('live');
    conversation.emit('began', 0);
  };
  parts.end = async (reason = 'closed') => {
    enter('ended');
    conversation.emit('ended', reason);
    await settle();
  };
  parts.recordOne = async () => {
    parts.start();
    recordings.toggle();
    await parts.end();
  };
  return parts;
}

const names = ({ recordings }) => recordings.kept.map(({ name }) => name);

test('Record after the end of a call takes nothing of it away, and makes no empty file', async (t) => {
  const parts = scene(t);
  await parts.recordOne();
  const [recording] = parts.recordings.kept;
  parts.recordings.toggle();
  assert.equal(parts.made.length, 1, 'there is nothing to be recorded');
  parts.recordings.toggle();
  await settle();
  assert.deepEqual(parts.recordings.kept, [recording]);
  assert.equal(await recording.blob.text(), 'sound 1');
});

test('Record before a call records it from its beginning to its end', async (t) => {
  const parts = scene(t);
  parts.recordings.toggle();
  assert.deepEqual([parts.recordings.isWanted, parts.recordings.isRunning], [true, false]);
  parts.start();
  assert.equal(parts.recordings.isRunning, true);
  parts.conversation.client.stream = 'another';
  parts.passes(300);
  assert.deepEqual(parts.made[0].heard.at(-1), { you: 'mine', agent: 'another' });
  await parts.end();
  assert.deepEqual([parts.recordings.isWanted, parts.recordings.isRunning, ...names(parts)], [false, false, 'call.webm']);
  parts.start();
  assert.equal(parts.recordings.isRunning, false, 'one call was meant');
});

test('Record pressed twice before a call records nothing', (t) => {
  const parts = scene(t);
  parts.recordings.toggle();
  parts.recordings.toggle();
  parts.start();
  assert.equal(parts.made.length, 0);
});

test('a call that never came to be leaves what was recorded before, and no file of its own', async (t) => {
  const parts = scene(t);
  await parts.recordOne();
  parts.recordings.toggle();
  parts.conversation.emit('fresh');
  parts.dial();
  assert.equal(parts.recordings.isRunning, true);
  parts.enter('failed');
  await settle();
  assert.deepEqual(names(parts), ['call.webm']);
  assert.equal(parts.recordings.isWanted, true, 'the next attempt is recorded');
});

test('a second recording of a call stands beside the first', async (t) => {
  const parts = scene(t);
  parts.start();
  for (let press = 0; press < 4; press++) {
    parts.recordings.toggle();
    await settle();
  }
  assert.deepEqual(names(parts), ['call.webm', 'call-2.webm']);
});

test('a call that broke is recorded on when it is made again', async (t) => {
  const parts = scene(t);
  parts.start();
  parts.recordings.toggle();
  await parts.end('server_stopping');
  assert.deepEqual([parts.recordings.isWanted, parts.recordings.isRunning], [true, false]);
  parts.dial();
  parts.enter('live');
  assert.equal(parts.recordings.isRunning, true);
  await parts.end();
  assert.deepEqual([parts.recordings.isWanted, ...names(parts)], [false, 'call.webm', 'call-2.webm']);
});

test('what was saved makes way for another call, what was not stays, up to a bound', async (t) => {
  const parts = scene(t);
  for (let call = 0; call < 2; call++) await parts.recordOne();
  parts.recordings.saved(parts.recordings.kept[0]);
  parts.start();
  assert.deepEqual(names(parts), ['call-2.webm']);
  await parts.end();
  for (let call = 0; call < MAX_KEPT + 3; call++) await parts.recordOne();
  assert.equal(parts.recordings.kept.length, MAX_KEPT);
  assert.equal(await parts.recordings.kept.at(-1).blob.text(), `sound ${MAX_KEPT + 5}`);
});

test('where there are too many, a saved one leaves before one that is not', async (t) => {
  const parts = scene(t);
  for (let call = 0; call < MAX_KEPT; call++) await parts.recordOne();
  const [oldest] = parts.recordings.kept;
  parts.start();
  const saved = parts.recordings.kept[3];
  parts.recordings.saved(saved);
  parts.recordings.toggle();
  await parts.end();
  assert.equal(parts.recordings.kept.length, MAX_KEPT);
  assert.deepEqual([parts.recordings.kept[0], parts.recordings.kept.includes(saved)], [oldest, false]);
});

test('a browser that refuses to record does not hinder the call, and the page says so', (t) => {
  t.mock.method(console, 'warn', () => {});
  const conversation = Object.assign(new Emitter(), { call: { phase: 'ready', isActive: false }, client: null });
  const newRecorder = () => {
    throw new DOMException('no', 'NotSupportedError');
  };
  const recordings = new Recordings(conversation, { newRecorder, name: String, onChange() {} });
  const told = [];
  conversation.on('problem', ({ code }) => told.push(code));
  recordings.toggle();
  assert.deepEqual([recordings.isWanted, told], [true, []]);
  conversation.emit('client', {});
  assert.deepEqual([recordings.isWanted, recordings.isRunning, told], [false, false, ['not_recorded']]);
});

test('sound would be lost with the page from the first of it until it is saved', async (t) => {
  const parts = scene(t);
  const { recordings } = parts;
  const isUnsaved = [recordings.isUnsaved];
  recordings.toggle();
  isUnsaved.push(recordings.isUnsaved);
  parts.start();
  isUnsaved.push(recordings.isUnsaved);
  parts.enter('ended');
  isUnsaved.push(recordings.isUnsaved); // the file is not there yet
  await parts.end();
  isUnsaved.push(recordings.isUnsaved);
  recordings.saved(recordings.kept[0]);
  isUnsaved.push(recordings.isUnsaved);
  assert.deepEqual(isUnsaved, [false, false, true, true, true, false]);
});

test('the browser asks before the page goes away as long as something would be lost, and not longer', () => {
  const page = new EventTarget();
  const guard = new LeaveGuard(page);
  const asks = () => !page.dispatchEvent(new Event('beforeunload', { cancelable: true }));
  const asked = [asks()];
  for (const needed of [true, true, false]) {
    guard.isNeeded = needed;
    asked.push(asks());
  }
  assert.deepEqual(asked, [false, true, true, false]);
});
