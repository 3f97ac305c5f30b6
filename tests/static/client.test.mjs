import assert from 'node:assert/strict';
import { mock, test } from 'node:test';

import { RtcClient } from '../../static/client.js';

class FakeChannel extends EventTarget {
  readyState = 'connecting';
  sent = [];

  send(text) {
    this.sent.push(JSON.parse(text));
  }

  open() {
    this.readyState = 'open';
    this.dispatchEvent(new Event('open'));
  }

  close() {
    this.readyState = 'closed';
    this.dispatchEvent(new Event('close'));
  }

  receive(message) {
    const data = typeof message === 'string' ? message : JSON.stringify(message);
    this.dispatchEvent(Object.assign(new Event('message'), { data }));
  }
}

class FakePeer extends EventTarget {
  static newest;
  connectionState = 'new';
  localDescription = null;
  closed = false;
  tracks = [];
  receiver = { track: { kind: 'audio', enabled: true }, getSynchronizationSources: () => [{ rtpTimestamp: 4_800 }] };

  constructor(configuration) {
    super();
    this.configuration = configuration;
    FakePeer.newest = this;
  }

  addTrack(track) {
    this.tracks.push(track);
  }

  addTransceiver(kind, { direction }) {
    this.tracks.push({ kind, direction });
  }

  createDataChannel(label) {
    this.channel = Object.assign(new FakeChannel(), { label });
    return this.channel;
  }

  getReceivers() {
    return [this.receiver];
  }

  async setLocalDescription() {
    this.localDescription = { type: 'offer', sdp: 'v=0 offer' };
  }

  async setRemoteDescription({ sdp }) {
    this.remoteSdp = sdp;
    this.onAnswer?.();
  }

  async getStats() {
    return new Map([['s', { type: 'media-source', kind: 'audio', audioLevel: 0.5 }]]);
  }

  become(connectionState) {
    this.connectionState = connectionState;
    this.dispatchEvent(new Event('connectionstatechange'));
  }

  close() {
    this.closed = true;
  }
}

/** A client before a server that takes every call; `requests` is what it was asked. */
function scene({ answer } = {}) {
  const requests = [];
  const states = [];
  const fetch = async (url, init) => {
    requests.push({ method: init.method, url, body: init.body && JSON.parse(init.body) });
    if (init.method === 'DELETE') return new Response(null, { status: 204 });
    return answer ? answer() : new Response(JSON.stringify({ id: 's1', sdp: 'v=0 answer', type: 'answer' }), { status: 201 });
  };
  const client = new RtcClient({ token: 'k', fetch, RTCPeerConnection: FakePeer });
  client.addEventListener('state', ({ detail }) => states.push(detail.reason ? `${detail.state}: ${detail.reason}` : detail.state));
  const microphoneTrack = { kind: 'audio', enabled: true };
  const microphone = { getAudioTracks: () => [microphoneTrack] };
  return { client, requests, states, microphone, microphoneTrack };
}

async function connected(parts = scene()) {
  const done = parts.client.connect({ microphone: parts.microphone, persona: 'p', voice: 'v' });
  const peer = FakePeer.newest;
  peer.onAnswer = () => peer.channel.open();
  await done;
  return { ...parts, peer, channel: peer.channel };
}

test('a call is one offer, one answer and an open channel', async () => {
  const { peer, channel, requests, states, microphoneTrack } = await connected();
  assert.equal(peer.configuration.bundlePolicy, 'max-bundle');
  assert.deepEqual(peer.tracks, [microphoneTrack]);
  assert.equal(channel.label, 'events');
  assert.equal(peer.remoteSdp, 'v=0 answer');
  assert.deepEqual(requests, [
    { method: 'POST', url: '/v1/sessions', body: { sdp: 'v=0 offer', type: 'offer', persona: 'p', voice: 'v' } },
  ]);
  assert.deepEqual(states, ['connecting', 'preparing']);
});

test('without a microphone the call listens only', async () => {
  const parts = scene();
  const { peer } = await connected({ ...parts, microphone: null });
  assert.deepEqual(peer.tracks, [{ kind: 'audio', direction: 'recvonly' }]);
});

test('every server event is dispatched under its type', async () => {
  const { client, channel } = await connected();
  const seen = [];
  client.addEventListener('response.delta', ({ detail }) => seen.push(detail));
  channel.receive({ type: 'response.delta', data: ' hi', frame: 3 });
  assert.deepEqual(seen, [{ type: 'response.delta', data: ' hi', frame: 3 }]);
});

test('messages that are no events are ignored', async () => {
  const { channel, states } = await connected();
  for (const message of ['', '{', '[]', 'null', '{"type":7}', '{"type":"some.future.event"}']) channel.receive(message);
  assert.deepEqual(states, ['connecting', 'preparing']);
});

test('the states follow the server', async () => {
  const { channel, peer, states } = await connected();
  channel.receive({ type: 'session.ready' });
  channel.receive({ type: 'session.degraded', reason: 'no audio' });
  channel.receive({ type: 'session.resumed' });
  peer.become('disconnected');
  peer.become('connected');
  channel.receive({ type: 'session.ended', reason: 'server_stopping' });
  channel.close();
  assert.deepEqual(states.slice(2), ['live', 'degraded: no audio', 'live', 'degraded: network', 'live', 'ended: server_stopping']);
  assert.ok(peer.closed);
});

test('a network that is back does not end what the server calls degraded', async () => {
  const { channel, peer, client } = await connected();
  channel.receive({ type: 'session.ready' });
  channel.receive({ type: 'session.degraded', reason: 'no audio' });
  peer.become('connected');
  assert.equal(client.state, 'degraded');
});

test('a server that goes without a word is a lost connection', async () => {
  const { channel, states, peer } = await connected();
  channel.receive({ type: 'session.ready' });
  channel.close();
  assert.equal(states.at(-1), 'ended: connection_lost');
  assert.ok(peer.closed);
});

test('closing deletes the session first, closes the connection after it, and silences the agent at once', async () => {
  const { client, peer, requests, states } = await connected();
  const closing = client.close();
  assert.equal(peer.receiver.track.enabled, false);
  assert.equal(peer.closed, false);
  await closing;
  await client.close();
  assert.equal(peer.closed, true);
  assert.deepEqual(requests.slice(1).map(({ method, url }) => `${method} ${url}`), ['DELETE /v1/sessions/s1']);
  assert.equal(states.at(-1), 'ended: closed');
});

test('a page that goes away closes in the same breath', async () => {
  const { client, peer, requests } = await connected();
  client.close({ atOnce: true });
  assert.equal(peer.closed, true);
  assert.equal(requests.at(-1).method, 'DELETE');
});

test('a refused offer is told as it is, and the client is over', async () => {
  const { client, microphone } = scene({
    answer: () => new Response(JSON.stringify({ code: 'engine_full', message: 'full' }), { status: 503 }),
  });
  await assert.rejects(client.connect({ microphone }), { code: 'engine_full' });
  assert.equal(client.state, 'ended');
  assert.ok(FakePeer.newest.closed);
  await assert.rejects(client.connect({ microphone }), { code: 'already_used' });
});

test('no way to the server frees the slot and says so', async () => {
  const { client, microphone, requests } = scene();
  const done = client.connect({ microphone });
  FakePeer.newest.onAnswer = () => FakePeer.newest.become('failed');
  await assert.rejects(done, { code: 'ice_failed' });
  assert.equal(requests.at(-1).method, 'DELETE');
});

test('a channel that never opens is given up', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { client, microphone } = scene();
    const done = client.connect({ microphone });
    FakePeer.newest.onAnswer = () => mock.timers.tick(12_000);
    await assert.rejects(done, { code: 'ice_failed' });
  } finally {
    mock.timers.reset();
  }
});

test('a call closed while its offer is on the way gives the slot back', async () => {
  const { client, microphone, requests } = scene({
    answer: () => {
      client.close();
      return new Response(JSON.stringify({ id: 's9', sdp: 'v=0', type: 'answer' }), { status: 201 });
    },
  });
  await assert.rejects(client.connect({ microphone }), { code: 'cancelled' });
  assert.equal(requests.at(-1).url, '/v1/sessions/s9');
  assert.ok(FakePeer.newest.closed);
});

test('mute silences the microphone before and during the call', async () => {
  const { client, microphoneTrack } = await connected();
  client.mute(true);
  assert.equal(microphoneTrack.enabled, false);
  client.mute(false);
  assert.equal(microphoneTrack.enabled, true);
});

test('events are sent while the channel is open and dropped otherwise', async () => {
  const { client, channel } = await connected();
  client.cancel();
  assert.deepEqual(channel.sent, [{ type: 'response.cancel' }]);
  channel.readyState = 'closing';
  assert.equal(client.send({ type: 'close' }), false);
});

test('statistics and the playout position come from the connection', async () => {
  const { client } = await connected();
  assert.equal((await client.stats()).microphoneLevel, 0.5);
  assert.equal(client.playoutTimestamp(), 4_800);
  assert.equal(new RtcClient({ RTCPeerConnection: FakePeer }).playoutTimestamp(), null);
});

test('a browser without WebRTC is told so', async () => {
  const client = new RtcClient({ RTCPeerConnection: undefined });
  await assert.rejects(client.connect(), { code: 'no_webrtc' });
});
