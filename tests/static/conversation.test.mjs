import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';

import { CallError } from '../../static/client/errors.js';
import { Conversation } from '../../static/page/conversation.js';

class FakeAudio extends EventTarget {
  srcObject = null;

  async play() {}
}

class FakeClient extends EventTarget {
  static newest;
  stream = null;
  resumption = { token: 't', lastEvent: 5 };
  dialled = false;
  sent = [];
  closed = [];
  timestamp = null;

  constructor() {
    super();
    FakeClient.newest = this;
    this.connecting = new Promise((resolve, reject) => Object.assign(this, { accept: resolve, refuse: reject }));
  }

  /** As the client does: the microphone first. */
  async connect(options) {
    this.options = options;
    this.microphone = await options.microphone();
    this.dialled = true;
    return this.connecting;
  }

  async reopenMicrophone() {
    this.reopened = true;
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
  const heard = { states: [], ended: [], problems: [], turns: [], microphone: [] };
  const stream = {};
  let grant, refuse;
  const microphone = () => new Promise((resolve, reject) => ([grant, refuse] = [() => resolve(stream), reject]));
  const audio = new FakeAudio();
  const conversation = new Conversation({
    audio,
    microphone,
    newClient: () => new FakeClient(),
  });
  conversation.on('state', (state) => heard.states.push(state));
  conversation.on('turn', (turn, change) => heard.turns.push(`${turn.side} ${change}`));
  conversation.on('microphone', (state, code) => heard.microphone.push(`${state} ${code}`.trim()));
  conversation.on('ended', (reason) => heard.ended.push(reason));
  conversation.on('problem', (problem) => heard.problems.push(problem.code));
  return { conversation, heard, stream, audio, grant: () => grant(), refuse: (error) => refuse(error) };
}

async function live(parts = scene(), start = (options) => parts.conversation.start(options)) {
  const started = start({ persona: 'p' });
  parts.grant();
  await settle();
  const client = FakeClient.newest;
  client.become('preparing');
  client.accept();
  await started;
  client.become('live');
  return { ...parts, client };
}

/** What a part of the page would keep, from now on. */
function keeping(parts) {
  const kept = { ids: [], fresh: 0, began: 0 };
  parts.conversation.on('fresh', () => (kept.fresh += 1));
  parts.conversation.on('began', () => (kept.began += 1));
  parts.conversation.on('turn', ({ id }, change) => change === 'final' && kept.ids.push(id));
  return { ...parts, kept };
}

const words = ({ transcript }) => transcript.turns.flatMap((turn) => turn.words.map(({ text }) => text)).join(' ');

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
  assert.equal(FakeClient.newest.dialled, false);
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

test('a call goes live, and the end closes it once', async () => {
  const { conversation, client, heard, audio } = await live();
  assert.deepEqual(heard.states, ['asking', 'connecting', 'preparing', 'listening']);
  conversation.end();
  assert.deepEqual(client.closed, [{ atOnce: false }]);
  assert.equal(audio.srcObject, null);
  assert.deepEqual(heard.ended, ['closed']);
  conversation.end();
  assert.equal(client.closed.length, 1);
});

test('an end while the browser is still asking closes the client, which gives back what comes late', async () => {
  const { conversation, grant, heard } = scene();
  conversation.start({});
  conversation.end();
  grant();
  await settle();
  assert.equal(FakeClient.newest.closed.length, 1);
  assert.deepEqual(heard.states, ['asking', 'ended']);
});

test('a refused call says why', async () => {
  const { conversation, grant, heard } = scene();
  const started = conversation.start({});
  grant();
  await settle();
  FakeClient.newest.become('ended', 'engine_full');
  FakeClient.newest.refuse(new CallError('engine_full', 'full'));
  await started;
  assert.deepEqual([heard.states.at(-1), heard.problems, heard.ended], ['failed', ['engine_full'], []]);
});

test('the server’s goodbye ends the call with its reason', async () => {
  const { client, heard } = await live();
  client.become('ended', 'server_stopping');
  assert.deepEqual(heard.ended, ['server_stopping']);
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

test('a microphone that is taken from the call is told, and asked for again when the person wants it', async () => {
  const { conversation, client, heard } = await live();
  client.emit('microphone', { state: 'lost', code: 'microphone_missing' });
  conversation.reopenMicrophone();
  client.emit('microphone', { state: 'live', code: '' });
  assert.deepEqual(heard.microphone, ['lost microphone_missing', 'live']);
  assert.ok(client.reopened);
});

test('sound that the browser paused is played again when the client says so', async () => {
  const { client, audio } = await live();
  const play = mock.method(audio, 'play');
  client.emit('sound');
  audio.dispatchEvent(new Event('pause'));
  assert.equal(play.mock.callCount(), 2);
});

test('a new connection has a clock of its own', async () => {
  const { client, heard } = await live();
  client.emit('response.delta', { data: ' old', frame: 10, rtp_timestamp: 48_000 });
  client.timestamp = 48_000;
  mock.method(performance, 'now', () => 60_000);
  mock.timers.tick(50);
  client.timestamp = null;
  client.emit('track', { stream: {} });
  client.sent.length = 0;
  mock.method(performance, 'now', () => 70_000);
  client.emit('response.delta', { data: ' new', frame: 30, rtp_timestamp: null });
  mock.timers.tick(50);
  mock.method(performance, 'now', () => 70_200);
  mock.timers.tick(50);
  assert.deepEqual(client.sent, []);
  assert.ok(heard.turns.length > 1);
});

test('a call is handed over with its words, and goes on in another page', async () => {
  let nowMs = 20_000;
  mock.method(performance, 'now', () => nowMs);
  const first = await live();
  first.conversation.mute(true);
  first.client.emit('input.transcript', { item: 0, text: 'Hello there', final: true, start_ms: 0, end_ms: 900 });
  first.client.emit('response.delta', { data: ' Good day', frame: 20, rtp_timestamp: null });
  nowMs += 5_000;
  const left = JSON.parse(JSON.stringify(first.conversation.handOver()));
  assert.deepEqual([left.resumption, left.durationMs, left.muted], [{ token: 't', lastEvent: 5 }, 0, true]);

  const second = scene();
  nowMs += 60_000;
  const resumed = second.conversation.resume(left);
  assert.deepEqual(second.heard.states, ['reconnecting']);
  second.grant();
  await settle();
  const client = FakeClient.newest;
  assert.deepEqual(client.options.resume, { token: 't', lastEvent: 5 });
  assert.equal(client.options.persona, undefined);
  assert.equal(client.muted, true);
  client.become('preparing');
  client.accept();
  await resumed;
  client.become('live');
  assert.deepEqual(second.heard.states, ['reconnecting', 'listening']);
  const turns = second.conversation.transcript.turns.map(({ side, words }) => `${side}: ${words.map(({ text }) => text).join(' ')}`);
  assert.deepEqual(turns, ['user: Hello there', 'agent: Good day']);
  assert.ok(second.conversation.transcript.turns.every(({ final }) => final));
});

test('words of a call that was made again keep their times over a reload', async () => {
  let nowMs = 20_000;
  mock.method(performance, 'now', () => nowMs);
  const first = await live();
  nowMs += 30_000;
  first.client.become('ended', 'server_stopping');
  const { client } = await live(first, (options) => first.conversation.startAgain(options));
  nowMs += 5_000;
  client.emit('input.transcript', { item: 0, text: 'Hello', final: true, start_ms: 0, end_ms: 900 });
  nowMs += 5_000;
  const left = JSON.parse(JSON.stringify(first.conversation.handOver()));
  assert.equal(left.beganAgoMs, 40_000);

  const { conversation } = scene();
  const told = [];
  for (const event of ['began', 'turn']) conversation.on(event, (value) => told.push(value));
  conversation.resume(left);
  assert.equal(told[1].startedMs - told[0], 35_000);
});

test('a call that its caller ends while it fails is not told as trouble', async () => {
  const { conversation, grant, heard } = scene();
  const started = conversation.start({});
  grant();
  await settle();
  conversation.end();
  FakeClient.newest.refuse(new CallError('ice_failed', 'no way'));
  await started;
  assert.deepEqual([heard.states.at(-1), heard.problems], ['ended', []]);
});

test('a call that cannot be taken up is told, and a new one can be started', async () => {
  const { conversation, grant, heard } = scene();
  const resumed = conversation.resume({ resumption: { token: 't', lastEvent: 1 }, turns: [], durationMs: 1, muted: false });
  grant();
  await settle();
  FakeClient.newest.become('ended', 'session_not_found');
  FakeClient.newest.refuse(new CallError('session_not_found', 'gone'));
  await resumed;
  assert.deepEqual([heard.states.at(-1), heard.problems, heard.ended], ['failed', ['session_not_found'], []]);
  conversation.start({});
  assert.equal(heard.states.at(-1), 'asking');
});

test('before a call is live there is nothing to hand over', async () => {
  const { conversation, grant } = scene();
  assert.equal(conversation.handOver(), null);
  conversation.start({});
  grant();
  await settle();
  assert.equal(conversation.handOver(), null);
});

test('mute reaches the call, and the next call begins unmuted', async () => {
  const parts = await live();
  parts.conversation.mute(true);
  assert.equal(parts.client.muted, true);
  parts.conversation.end();
  const { client } = await live(parts);
  assert.equal(client.muted, false);
});

test('a call that is made again by itself opens no microphone that its owner has muted', async () => {
  const parts = await live();
  parts.conversation.mute(true);
  parts.client.become('ended', 'server_stopping');
  const { client } = await live(parts, (options) => parts.conversation.startAgain(options));
  assert.deepEqual([client.muted, parts.conversation.muted], [true, true]);
});

test('a call that is made again by itself adds its words to those of the one that broke; a new one has its own', async () => {
  const { kept, ...parts } = keeping(await live());
  const say = (client, text) => client.emit('input.transcript', { item: 0, text, final: true, start_ms: 0, end_ms: 900 });
  say(parts.client, 'before');
  parts.client.become('ended', 'server_stopping');
  say((await live(parts, (options) => parts.conversation.startAgain(options))).client, 'after');
  assert.deepEqual(kept, { ids: [1, 2], fresh: 0, began: 0 });
  assert.equal(words(parts.conversation), 'before after');
  parts.conversation.end();
  say((await live(parts)).client, 'new');
  assert.deepEqual([kept.fresh, kept.began, words(parts.conversation)], [1, 1, 'new']);
});

test('words of an earlier page come when what was kept before them is put away, and count from the beginning', async () => {
  mock.method(performance, 'now', () => 60_000);
  const { conversation } = scene();
  const told = [];
  for (const event of ['fresh', 'began', 'turn', 'client']) conversation.on(event, (value) => told.push([event, value]));
  const turns = [{ side: 'user', words: [{ text: 'Hello', cut: false }], interrupted: false, spokeMs: null, agoMs: 5_000 }];
  conversation.resume({ resumption: { token: 't', lastEvent: 1 }, turns, durationMs: 9_000, muted: false });
  assert.deepEqual(told.slice(0, 3).map(([event]) => event), ['fresh', 'began', 'turn']);
  assert.deepEqual([told[1][1], told[2][1].startedMs], [51_000, 55_000]);
});

test('a call that could not be taken up for want of a microphone can be taken up again', async () => {
  const { conversation, refuse, heard } = scene();
  const left = { resumption: { token: 't', lastEvent: 1 }, turns: [], durationMs: 1, muted: true };
  const resumed = conversation.resume(left);
  refuse(new CallError('microphone_busy', 'held'));
  await resumed;
  conversation.resume(left);
  assert.deepEqual([heard.states.at(-1), conversation.muted], ['reconnecting', true]);
});

test('the figures of a second are all of that second', async () => {
  const { conversation, client } = await live();
  const told = [];
  conversation.on('latency', ({ totalMs }) => told.push(['latency', Math.round(totalMs)]));
  conversation.on('stats', () => told.push(['stats']));
  const stats = { microphoneLevel: 0, agentLevel: 0, roundTripMs: 20, jitterBufferDelayS: 0, jitterBufferSamples: 0, playoutDelayS: 0, playoutSamples: 0 };
  client.stats = async () => stats;
  client.emit('session.stats', { jitter_delay_ms: 10, tick_ms: 5, playout_delay_ms: 0 });
  for (let tick = 0; tick < 45; tick++) {
    mock.timers.tick(50);
    await settle();
  }
  assert.ok(told.length >= 3, `${told}`);
  assert.deepEqual(told.slice(-2).map(([what]) => what), ['latency', 'stats']);
});

test('whoever asks for the microphone again learns what became of it', async () => {
  const { conversation, client } = await live();
  client.reopenMicrophone = async () => false;
  assert.equal(await conversation.reopenMicrophone(), false);
});

test('sound that the browser holds back is told once there is something to be heard, and whether it plays at each try', async () => {
  const parts = scene();
  const { conversation, audio, heard } = parts;
  assert.equal(await conversation.resumeSound(), true, 'without a call nothing is held back');
  audio.play = () => Promise.reject(new DOMException('no gesture', 'NotAllowedError'));
  const { client } = await live(parts);
  assert.equal(await conversation.resumeSound(), false);
  assert.deepEqual(heard.problems, []);
  client.stream = {};
  client.emit('track', { stream: client.stream });
  await settle();
  assert.deepEqual(heard.problems, ['sound_blocked']);
  audio.play = () => Promise.reject(new DOMException('another stream', 'AbortError'));
  assert.equal(await conversation.resumeSound(), true);
  assert.deepEqual(heard.problems, ['sound_blocked']);
});

test('a page that goes on with a call knows how much was said before what it was given', async () => {
  const { conversation } = scene();
  const left = [];
  conversation.on('left', (turns) => left.push(turns));
  const turns = [{ side: 'user', words: [{ text: 'Hello', cut: false }], interrupted: false, spokeMs: null, agoMs: 5 }];
  conversation.resume({ resumption: { token: 't', lastEvent: 1 }, turns, left: 40, durationMs: 9, muted: false });
  conversation.client.resumption = { token: 't', lastEvent: 2 };
  const handedOver = conversation.handOver();
  assert.deepEqual([left, handedOver.left, handedOver.turns.length], [[40], 40, 1]);
});
