import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';

import { CallError } from '../../static/errors.js';
import { Conversation } from '../../static/conversation.js';

class FakeAudio extends EventTarget {
  srcObject = null;

  async play() {}
}

class FakeClient extends EventTarget {
  static newest;
  stream = null;
  sent = [];
  closed = [];
  timestamp = null;

  constructor() {
    super();
    FakeClient.newest = this;
    this.connecting = new Promise((resolve, reject) => Object.assign(this, { accept: resolve, refuse: reject }));
  }

  connect(options) {
    this.options = options;
    return this.connecting;
  }

  emit(type, detail = {}) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  become(state, reason = '') {
    this.emit('state', { state, reason });
  }

  async close(options) {
    this.closed.push(options);
  }

  mute(muted) {
    this.muted = muted;
  }

  send(event) {
    this.sent.push(event);
  }

  async stats() {
    return { microphoneLevel: 0, agentLevel: 0 };
  }

  playoutTimestamp() {
    return this.timestamp;
  }
}

/** A conversation whose microphone is granted or refused by hand. */
function scene() {
  const heard = { states: [], ended: [], problems: [], turns: [] };
  const track = Object.assign(new EventTarget(), { stopped: false, stop: () => (track.stopped = true) });
  const stream = { getTracks: () => [track], getAudioTracks: () => [track] };
  let grant, refuse;
  const microphone = () => new Promise((resolve, reject) => ([grant, refuse] = [() => resolve(stream), reject]));
  const audio = new FakeAudio();
  const conversation = new Conversation({
    audio,
    microphone,
    newClient: () => new FakeClient(),
    listeners: {
      state: (state) => heard.states.push(state),
      turn: (turn, change) => heard.turns.push(`${turn.side} ${change}`),
      queued() {},
      prefill() {},
      latency() {},
      ending() {},
      ended: (reason) => heard.ended.push(reason),
      problem: (problem) => heard.problems.push(problem.code),
    },
  });
  return { conversation, heard, track, audio, grant: () => grant(), refuse: (error) => refuse(error) };
}

async function live(parts = scene()) {
  const started = parts.conversation.start({ persona: 'p' });
  parts.grant();
  await settle();
  const client = FakeClient.newest;
  client.become('preparing');
  client.accept();
  await started;
  client.become('live');
  return { ...parts, client };
}

const settle = async () => {
  for (let turn = 0; turn < 5; turn++) await Promise.resolve();
};

beforeEach(() => {
  globalThis.MediaStream ??= class {};
  mock.timers.enable({ apis: ['setInterval'] });
});
afterEach(() => {
  mock.timers.reset();
  mock.restoreAll();
});

test('no slot is taken before the microphone is granted', async () => {
  const { conversation, grant, heard } = scene();
  conversation.start({ persona: 'p' });
  await settle();
  assert.equal(FakeClient.newest.options, undefined);
  assert.deepEqual(heard.states, ['asking']);
  grant();
  await settle();
  assert.equal(FakeClient.newest.options.persona, 'p');
  assert.deepEqual(heard.states, ['asking', 'connecting']);
});

test('a refused microphone fails the call, which can be started again', async () => {
  const { conversation, refuse, heard } = scene();
  const started = conversation.start({});
  refuse(new CallError('microphone_denied', 'no'));
  await started;
  assert.deepEqual(heard.problems, ['microphone_denied']);
  assert.deepEqual(heard.states, ['asking', 'failed']);
  conversation.start({});
  assert.equal(heard.states.at(-1), 'asking');
});

test('a call goes live, and the end gives the microphone back', async () => {
  const { conversation, client, track, heard, audio } = await live();
  assert.deepEqual(heard.states, ['asking', 'connecting', 'preparing', 'listening']);
  conversation.end();
  assert.deepEqual(client.closed, [{ atOnce: false }]);
  assert.ok(track.stopped);
  assert.equal(audio.srcObject, null);
  assert.deepEqual(heard.ended, ['closed']);
  conversation.end();
  assert.equal(client.closed.length, 1);
});

test('an end while the browser is still asking closes the microphone that comes late', async () => {
  const { conversation, grant, track, heard } = scene();
  conversation.start({});
  conversation.end();
  grant();
  await settle();
  assert.ok(track.stopped);
  assert.equal(FakeClient.newest.options, undefined);
  assert.deepEqual(heard.states, ['asking', 'ended']);
});

test('a refused call gives the microphone back and says why', async () => {
  const { conversation, grant, track, heard } = scene();
  const started = conversation.start({});
  grant();
  await settle();
  FakeClient.newest.become('ended', 'engine_full');
  FakeClient.newest.refuse(new CallError('engine_full', 'full'));
  await started;
  assert.ok(track.stopped);
  assert.deepEqual([heard.states.at(-1), heard.problems, heard.ended], ['failed', ['engine_full'], []]);
});

test('the server’s goodbye ends the call with its reason', async () => {
  const { client, heard, track } = await live();
  client.become('ended', 'server_stopping');
  assert.deepEqual(heard.ended, ['server_stopping']);
  assert.ok(track.stopped);
});

test('a held line is told, and goes on', async () => {
  const { client, heard } = await live();
  client.become('degraded', 'network');
  client.become('live');
  assert.deepEqual(heard.states.slice(-2), ['reconnecting', 'listening']);
});

test('events of an earlier call do not reach the next one', async () => {
  const parts = await live();
  parts.conversation.end();
  const second = await live(parts);
  parts.client.become('ended', 'connection_lost');
  assert.deepEqual(second.heard.ended, ['closed']);
  assert.equal(second.conversation.call.isActive, true);
});

test('an interruption is shown at once', async () => {
  const { client, heard } = await live();
  client.emit('barge_in', { epoch: 0, source: 'speech', audio_ms: 0 });
  mock.timers.tick(50);
  assert.equal(heard.states.at(-1), 'interrupted');
});

test('the server learns how much of the agent was heard', async () => {
  const { client } = await live();
  client.emit('response.delta', { data: ' hi', frame: 10, rtp_timestamp: 48_000 });
  client.timestamp = 48_000 + 4_800;
  mock.method(performance, 'now', () => 60_000);
  mock.timers.tick(50);
  const acks = client.sent.filter(({ type }) => type === 'playback.ack');
  assert.deepEqual(acks, [{ type: 'playback.ack', cursor: 10 * 80 + 100 }]);
});

test('a microphone that is pulled out is told', async () => {
  const { track, heard } = await live();
  track.dispatchEvent(new Event('ended'));
  assert.deepEqual(heard.problems, ['microphone_lost']);
});

test('mute reaches the call, and the next call begins unmuted', async () => {
  const parts = await live();
  parts.conversation.mute(true);
  assert.equal(parts.client.muted, true);
  parts.conversation.end();
  const { client } = await live(parts);
  assert.equal(client.muted, false);
});
