import assert from 'node:assert/strict';
import { afterEach, mock, test } from 'node:test';

import { RtcClient } from '../../static/client.js';
import { FakePeer, FakeStream, fakeBrowser, json, refusal, settle } from './fakes.mjs';

/** @type {RtcClient[]} */
const clients = [];
afterEach(() => Promise.all(clients.splice(0).map((client) => client.close())));

/** A client before a server that takes every call; `requests` is what it was asked for a call. */
function scene({ answer, config = {} } = {}) {
  const requests = [];
  const states = [];
  const fetch = async (url, init) => {
    if (init.method === 'GET') return json(config);
    requests.push({ method: init.method, url, body: init.body && JSON.parse(init.body) });
    if (init.method === 'DELETE') return json(null, 204);
    return answer ? answer() : json({ id: 's1', sdp: 'v=0 answer', type: 'answer' }, 201);
  };
  const { around } = fakeBrowser();
  const client = new RtcClient({ token: 'k', fetch, RTCPeerConnection: FakePeer, around, iceServers: [{ urls: 'turn:own' }] });
  clients.push(client);
  client.addEventListener('state', ({ detail }) => states.push(detail.reason ? `${detail.state}: ${detail.reason}` : detail.state));
  const microphone = new FakeStream();
  return { client, requests, states, microphone, microphoneTrack: microphone.track };
}

async function offered({ client, microphone }) {
  const done = client.connect({ microphone, persona: 'p', voice: 'v' });
  await settle();
  return { done, peer: FakePeer.newest };
}

async function connected(parts = scene()) {
  const { done, peer } = await offered(parts);
  peer.connect();
  await done;
  return { ...parts, peer, channel: peer.channel };
}

test('a call is one offer, one answer and an open channel', async () => {
  const { peer, channel, requests, states, microphoneTrack } = await connected();
  assert.equal(peer.configuration.bundlePolicy, 'max-bundle');
  assert.deepEqual(peer.tracks, [microphoneTrack]);
  assert.deepEqual([channel.label, channel.options], ['events', {}]);
  assert.deepEqual(peer.urgent.options, { ordered: false, maxRetransmits: 0 });
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

test('the server’s TURN servers stand beside those of the page, and a server that has none is called without', async () => {
  const turn = { urls: ['turn:voice.example.com'], username: '17:s1', credential: 'c' };
  const { peer } = await connected(scene({ config: { ice_servers: [turn] } }));
  assert.deepEqual(peer.configuration.iceServers, [turn, { urls: 'turn:own' }]);
  assert.deepEqual((await connected()).peer.configuration.iceServers, [{ urls: 'turn:own' }]);
});

test('several events of a tick come in one message, and what comes over both channels is told once', async () => {
  const { client, channel, peer } = await connected();
  const seen = [];
  for (const type of ['response.delta', 'barge_in', 'response.cancelled']) {
    client.addEventListener(type, ({ detail }) => seen.push(detail.seq));
  }
  peer.urgent.receive({ type: 'barge_in', seq: 3 });
  channel.receive([{ type: 'response.delta', seq: 1 }, { type: 'response.delta', seq: 2 }, { type: 'barge_in', seq: 3 }]);
  peer.urgent.receive({ type: 'barge_in', seq: 3 });
  channel.receive({ type: 'response.cancelled', seq: 4 });
  assert.deepEqual(seen, [3, 1, 2, 4]);
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
  for (const message of ['', '{', '[]', '[1,null,[]]', 'null', '{"type":7}', '{"type":"some.future.event"}']) channel.receive(message);
  assert.deepEqual(states, ['connecting', 'preparing']);
});

test('the states follow the server', async () => {
  const { channel, peer, states } = await connected();
  channel.receive({ type: 'session.ready' });
  channel.receive({ type: 'session.degraded', reason: 'no audio' });
  channel.receive({ type: 'session.resumed' });
  channel.receive({ type: 'session.ended', reason: 'server_stopping' });
  channel.close();
  assert.deepEqual(states.slice(2), ['live', 'degraded: no audio', 'live', 'ended: server_stopping']);
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
    answer: () => refusal('engine_full', 503),
  });
  await assert.rejects(client.connect({ microphone }), { code: 'engine_full' });
  assert.equal(client.state, 'ended');
  assert.ok(FakePeer.newest.closed);
  await assert.rejects(client.connect({ microphone }), { code: 'already_used' });
});

test('no way to the server frees the slot and says so', async () => {
  const { client, microphone, requests } = scene();
  const { done, peer } = await offered({ client, microphone });
  peer.become('failed');
  await assert.rejects(done, { code: 'ice_failed' });
  assert.equal(requests.at(-1).method, 'DELETE');
});

test('a call that did not come to be has its slot back when `connect` rejects', async () => {
  const did = [];
  const fetch = async (url, { method }) => {
    if (method === 'POST') return json({ id: 's1', sdp: 'v=0 answer', type: 'answer' }, 201);
    if (method === 'DELETE') for (let turn = 0; turn < 50; turn++) await settle();
    did.push(method);
    return method === 'DELETE' ? json(null, 204) : json({});
  };
  const client = new RtcClient({ fetch, RTCPeerConnection: FakePeer, around: {} });
  const done = client.connect().catch(({ code }) => did.push(code));
  await settle();
  FakePeer.newest.become('failed');
  await done;
  assert.deepEqual(did, ['GET', 'DELETE', 'ice_failed']);
});

test('a channel that never opens is given up', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { client, microphone } = scene();
    const { done, peer } = await offered({ client, microphone });
    while (!peer.remoteSdp) await new Promise((resolve) => setImmediate(resolve));
    let over = false;
    done.catch(() => (over = true));
    mock.timers.tick(11_900);
    await settle();
    assert.equal(over, false, 'the time begins with the answer');
    mock.timers.tick(100);
    await assert.rejects(done, { code: 'ice_failed' });
  } finally {
    mock.timers.reset();
  }
});

test('a call closed while its offer is on the way gives the slot back', async () => {
  const { client, microphone, requests } = scene({
    answer: () => {
      client.close();
      return json({ id: 's9', sdp: 'v=0', type: 'answer' }, 201);
    },
  });
  await assert.rejects(client.connect({ microphone }), { code: 'cancelled' });
  assert.equal(requests.at(-1).url, '/v1/sessions/s9');
  assert.ok(FakePeer.newest.closed);
});

test('a microphone that the client gets is asked for before anything else, and given back at the end', async () => {
  const { client, requests, microphone } = scene();
  let grant;
  const done = client.connect({ microphone: () => new Promise((resolve) => (grant = resolve)) });
  await settle();
  assert.deepEqual(requests, []);
  grant(microphone);
  await settle();
  FakePeer.newest.connect();
  await done;
  assert.deepEqual(FakePeer.newest.tracks, [microphone.track]);
  await client.close();
  assert.ok(microphone.track.stopped);
});

test('a refused microphone takes no slot', async () => {
  const { client, requests } = scene();
  const refused = Object.assign(new Error('no'), { name: 'NotAllowedError' });
  await assert.rejects(client.connect({ microphone: () => Promise.reject(refused) }), { code: 'microphone_denied' });
  assert.deepEqual(requests, []);
});

test('a call closed while the browser asks for the microphone gives back one that comes late', async () => {
  const { client, requests, microphone } = scene();
  let grant;
  const done = client.connect({ microphone: () => new Promise((resolve) => (grant = resolve)) });
  client.close();
  grant(microphone);
  await assert.rejects(done, { code: 'cancelled' });
  assert.ok(microphone.track.stopped);
  assert.deepEqual(requests, []);
});

test('mute silences the microphone before and during the call', async () => {
  const { client, microphoneTrack } = await connected();
  client.mute(true);
  assert.equal(microphoneTrack.enabled, false);
  client.mute(false);
  assert.equal(microphoneTrack.enabled, true);
});

test('another microphone takes over in the middle of the call, over the same connection', async () => {
  const { client, peer, microphoneTrack } = await connected();
  const told = [];
  client.addEventListener('microphone', ({ detail }) => told.push(detail.state));
  const other = new FakeStream();
  client.mute(true);
  await client.useMicrophone(async () => other);
  assert.deepEqual(peer.replaced, [other.track]);
  assert.equal(FakePeer.newest, peer);
  assert.equal(client.microphone, other);
  assert.equal(other.track.enabled, false);
  assert.equal(microphoneTrack.stopped, false); // a stream of the page's
  assert.deepEqual(told, ['live']);
  await client.close();
  assert.ok(other.track.stopped);
});

test('another microphone that is refused changes nothing, and without a call there is nothing to change', async () => {
  const { client, peer, microphone } = await connected();
  const refused = Object.assign(new Error('no'), { name: 'NotAllowedError' });
  await assert.rejects(client.useMicrophone(() => Promise.reject(refused)), { code: 'microphone_denied' });
  assert.equal(client.microphone, microphone);
  assert.deepEqual(peer.replaced, []);
  await assert.rejects(scene().client.useMicrophone(microphone), { code: 'no_microphone' });
});

test('events are sent while the channel is open and dropped otherwise', async () => {
  const { client, channel, peer } = await connected();
  assert.equal(client.send({ type: 'playback.ack', cursor: 80 }), true);
  assert.deepEqual(channel.sent, [{ type: 'playback.ack', cursor: 80 }]);
  assert.deepEqual(peer.urgent.sent, []);
  channel.readyState = 'closing';
  assert.equal(client.send({ type: 'close' }), false);
});

test('an interruption by hand goes over both channels under one name', async () => {
  const { client, channel, peer } = await connected();
  client.cancel();
  assert.equal(channel.sent[0].type, 'response.cancel');
  assert.match(channel.sent[0].id, /^\w{6,}$/);
  assert.deepEqual(peer.urgent.sent, channel.sent);
  client.cancel();
  assert.notEqual(channel.sent[0].id, channel.sent[1].id);
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
