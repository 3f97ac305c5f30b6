/** A call that breaks and is mended: the client as a whole, in virtual time. */

import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';

import { RtcClient } from '../../static/client.js';
import { GIVE_UP_MS } from '../../static/client/reconnect.js';
import { SILENT_MS } from '../../static/client/soundwatch.js';
import { FakePeer, FakeStream, fakeBrowser, json, never, refusal, settle, virtualTime } from './fakes.mjs';

let time;
let client;
beforeEach(() => {
  time = virtualTime();
  FakePeer.all = [];
});
afterEach(async () => {
  client.close({ atOnce: true });
  await settle();
  mock.timers.reset();
  mock.restoreAll();
});

/** A live call. `network.carries` says which peers hear the agent, `server` answers what is asked. */
async function live({ token = 'secret', resume } = {}) {
  const asked = [];
  const told = [];
  const network = { carries: () => true };
  const server = {
    PATCH: () => json({ id: 's1', sdp: 'v=0 answer', type: 'answer' }),
    POST: () => json({ id: 's1', sdp: 'v=0 answer', type: 'answer', resume_token: token ?? undefined }, 201),
    DELETE: () => json(null, 204),
    GET: () => json({ ice_servers: [] }),
  };
  const fetch = async (url, { method, body, signal }) => {
    if (method !== 'GET') asked.push({ method, ...(body && JSON.parse(body)) });
    return server[method](signal);
  };
  const browser = fakeBrowser();
  const microphones = [];
  client = new RtcClient({ fetch, RTCPeerConnection: FakePeer, around: browser.around });
  const keep = (type, what) => client.addEventListener(type, ({ detail }) => told.push(what(detail)));
  keep('state', ({ state, reason }) => (reason ? `${state}: ${reason}` : state));
  keep('microphone', ({ state }) => `microphone ${state}`);
  keep('track', () => 'track');
  keep('sound', () => 'sound');
  const microphone = async () => {
    microphones.push(new FakeStream());
    return microphones.at(-1);
  };
  const advance = (ms) =>
    time.advance(ms, (nowMs) => {
      for (const peer of FakePeer.all) if (!peer.closed && network.carries(peer, nowMs)) peer.packets += 1;
    });
  const done = client.connect({ microphone, resume });
  await settle();
  const peer = FakePeer.newest;
  peer.connect();
  peer.hearAgent();
  await done;
  peer.channel.receive({ type: 'session.ready', seq: 2 });
  await advance(1_000);
  told.length = 0;
  const methods = () => asked.map(({ method }) => method).join(' ');
  return { asked, told, network, server, browser, microphones, advance, peer, methods };
}

/** The newest connection gets through. */
async function connectNew() {
  await settle();
  FakePeer.newest.connect();
  FakePeer.newest.hearAgent();
  await settle();
}

test('a call that goes well is left alone', async () => {
  const { told, advance, methods } = await live();
  await advance(60_000);
  assert.deepEqual(told, []);
  assert.equal(methods(), 'POST');
});

test('when sound stops, a new way is looked for, and sound is back within six seconds', async () => {
  const { told, network, advance, peer, methods, asked } = await live();
  const brokeMs = time.now();
  network.carries = () => peer.restarts > 0 && peer.remoteSdp === 'v=0 answer';
  peer.remoteSdp = 'before';
  while (peer.packets < 51 && time.now() - brokeMs < 20_000) await advance(100);
  assert.ok(time.now() - brokeMs < 6_000, `${time.now() - brokeMs} ms`);
  await advance(500);
  assert.deepEqual(told, ['degraded: network', 'live']);
  assert.equal(methods(), 'POST PATCH');
  assert.equal(asked[1].sdp, 'v=0 restart 1');
  assert.equal(FakePeer.all.length, 1);
});

test('an answer that never comes is not waited for: the way that it would come may be the one that broke', async () => {
  const { network, server, advance, peer, told } = await live();
  const brokeMs = time.now();
  network.carries = () => peer.restarts > 1;
  server.PATCH = (signal) => (peer.restarts > 1 ? json({ id: 's1', sdp: 'v=0 answer', type: 'answer' }) : never(signal));
  while (client.state !== 'live' || told.length < 2) await advance(100);
  assert.deepEqual(told, ['degraded: network', 'live']);
  assert.ok(time.now() - brokeMs <= 6_000, `${time.now() - brokeMs} ms`);
});

for (const [what, prod] of [
  ['from Wi-Fi to cellular', ({ browser }) => browser.network('cellular')],
  ['online again', ({ browser }) => browser.window('online')],
]) {
  test(`another network (${what}) is taken at once, without a word where sound goes on`, async () => {
    const call = await live();
    prod(call);
    await call.advance(500);
    assert.equal(call.methods(), 'POST PATCH');
    assert.deepEqual(call.told, []);
    assert.equal(call.peer.restarts, 1);
  });
}

test('an estimate of the speed is no other network', async () => {
  const { browser, advance, methods } = await live();
  browser.network('wifi');
  await advance(1_000);
  assert.equal(methods(), 'POST');
});

test('ICE that says it is disconnected is not waited for', async () => {
  const { advance, peer, methods, told } = await live();
  peer.become('disconnected');
  await advance(100);
  assert.equal(methods(), 'POST PATCH');
  peer.become('connected');
  await advance(500);
  assert.deepEqual(told, ['degraded: network', 'live']);
});

test('where restarts do not help, a new connection takes the conversation over from the last event on', async () => {
  const { network, advance, peer, methods, asked, told, microphones } = await live();
  peer.channel.receive([{ type: 'response.delta', seq: 3, data: 'a' }, { type: 'response.delta', seq: 4, data: 'b' }]);
  network.carries = (other) => other !== peer;
  const words = [];
  client.addEventListener('response.delta', ({ detail }) => words.push(detail.data));
  while (FakePeer.all.length < 2) await advance(100);
  await settle();
  assert.equal(peer.closed, false); // in use until the other is there
  peer.channel.receive({ type: 'session.ended', seq: 5, reason: 'replaced' });
  peer.channel.close();
  await connectNew();
  assert.equal(peer.closed, true);
  FakePeer.newest.channel.receive([
    { type: 'session.created', seq: 1 },
    { type: 'response.delta', seq: 4, data: 'b' },
    { type: 'response.delta', seq: 6, data: 'c' },
    { type: 'session.resumed', seq: 7, context: 'kept' },
  ]);
  await advance(5_000);
  assert.equal(methods(), 'POST PATCH PATCH POST');
  const { sdp, resume, last_event: lastEvent, persona } = asked.at(-1);
  assert.deepEqual([sdp, resume, lastEvent, persona], ['v=0 offer', 'secret', 4, undefined]);
  assert.deepEqual(words, ['c']);
  assert.deepEqual(told, ['degraded: network', 'track', 'live']);
  assert.deepEqual(FakePeer.newest.tracks, [microphones[0].track]);
  assert.equal(microphones.length, 1);
});

test('a takeover without an answer is given up after six seconds, so that others can follow it', async () => {
  const { network, server, advance, asked } = await live();
  network.carries = () => false;
  server.PATCH = () => refusal('session_not_found', 404);
  const at = [];
  server.POST = (signal) => (at.push(time.now()), never(signal));
  await advance(SILENT_MS + GIVE_UP_MS);
  const gaps = at.slice(1).map((ms, index) => ms - at[index]);
  assert.ok(gaps.length >= 3 && gaps.every((ms) => ms >= 6_000 && ms <= 10_500), `${gaps}`);
  assert.ok(asked.length > 4);
});

test('an answer that took its time leaves the connection its own', async () => {
  const { network, server, advance, peer, told } = await live();
  network.carries = (other) => other !== peer;
  server.PATCH = () => refusal('session_not_found', 404);
  const answer = () => json({ id: 's1', sdp: 'v=0 late answer', type: 'answer', resume_token: 'secret' }, 201);
  server.POST = () => new Promise((resolve) => setTimeout(() => resolve(answer()), 5_500));
  while (FakePeer.newest.remoteSdp !== 'v=0 late answer') await advance(100);
  await advance(2_000);
  await connectNew();
  await advance(1_000);
  assert.equal(FakePeer.all.length, 2);
  assert.deepEqual(told, ['degraded: network', 'track', 'live']);
});

test('of an attempt that was given up, the server may still say over the old line that it took its place', async () => {
  const { network, server, advance, peer, told } = await live();
  network.carries = () => false;
  server.PATCH = () => refusal('session_not_found', 404);
  while (FakePeer.all.length < 2) await advance(100);
  while (FakePeer.all.length < 3) await advance(100); // the second did not come up in time
  await settle();
  peer.channel.receive({ type: 'session.ended', seq: 5, reason: 'replaced' });
  peer.channel.close();
  network.carries = (other) => other === FakePeer.all[2];
  await connectNew();
  await advance(1_000);
  assert.deepEqual(told, ['degraded: network', 'track', 'live']);
  FakePeer.newest.channel.receive({ type: 'session.ended', seq: 6, reason: 'replaced' });
  assert.equal(told.at(-1), 'ended: replaced', 'over the line that is in use it is somebody else');
});

test('between two attempts the first may still have taken the place of the old line; one without an answer has not', async () => {
  for (const answered of [true, false]) {
    FakePeer.all = [];
    const { network, server, advance, peer } = await live();
    network.carries = () => false;
    server.PATCH = () => refusal('session_not_found', 404);
    if (!answered) server.POST = (signal) => never(signal);
    while (FakePeer.all.length < 2) await advance(100);
    while (!FakePeer.newest.closed) await advance(20);
    peer.channel.receive({ type: 'session.ended', seq: 5, reason: 'replaced' });
    await advance(20);
    assert.equal(client.state, answered ? 'degraded' : 'ended');
    client.close({ atOnce: true });
  }
});

test('a server that no longer knows the connection but the conversation is asked for a new one at once', async () => {
  const { server, network, advance, peer, methods } = await live();
  network.carries = (other) => other !== peer;
  server.PATCH = () => refusal('session_not_found', 404);
  while (FakePeer.all.length < 2) await advance(100);
  assert.equal(methods(), 'POST PATCH POST');
});

test('a conversation that is over ends the call with that reason, without a further word to the server', async () => {
  const { server, network, advance, methods, told } = await live();
  network.carries = () => false;
  server.PATCH = server.POST = () => refusal('session_not_found', 404);
  while (client.state !== 'ended') await advance(100);
  assert.deepEqual(told, ['degraded: network', 'ended: session_not_found']);
  assert.equal(methods(), 'POST PATCH POST');
});

test('a network that never comes back ends the call after half a minute, and tries were few', async () => {
  const { server, network, advance, methods, told } = await live();
  network.carries = () => false;
  server.PATCH = server.POST = () => Promise.reject(new TypeError('network'));
  await advance(SILENT_MS + GIVE_UP_MS + 6_000);
  assert.deepEqual(told, ['degraded: network', 'ended: connection_lost']);
  assert.match(methods(), /^POST PATCH PATCH( POST){4,10} DELETE$/);
  assert.ok(FakePeer.all.every(({ closed }) => closed));
});

test('without a network nothing is tried, and with the first one at once', async () => {
  const { network, browser, advance, methods, told } = await live();
  network.carries = () => false;
  browser.around.navigator.onLine = false;
  await advance(12_000);
  assert.equal(methods(), 'POST');
  assert.deepEqual(told, ['degraded: network']);
  network.carries = () => true;
  browser.around.navigator.onLine = true;
  browser.window('online');
  await advance(300);
  assert.equal(methods(), 'POST PATCH');
  assert.equal(client.state, 'live');
});

test('without a resume token restarts are all there is', async () => {
  const { network, advance, methods } = await live({ token: null });
  network.carries = () => false;
  await advance(SILENT_MS + GIVE_UP_MS + 10_000);
  assert.match(methods(), /^POST( PATCH){4,10} DELETE$/);
  assert.equal(client.state, 'ended');
});

test('a conversation that another page took is let go, and not fought for', async () => {
  const { peer, advance, methods, told } = await live();
  peer.channel.receive({ type: 'session.ended', seq: 3, reason: 'replaced' });
  peer.channel.close();
  await advance(10_000);
  assert.deepEqual(told, ['ended: replaced']);
  assert.equal(methods(), 'POST');
});

test('what the server says while a call is being mended counts', async () => {
  const { network, advance, peer, told } = await live();
  network.carries = () => false;
  await advance(SILENT_MS + 600);
  peer.channel.receive({ type: 'session.ended', seq: 3, reason: 'server_stopping' });
  await advance(1_000);
  assert.deepEqual(told, ['degraded: network', 'ended: server_stopping']);
});

test('a call that is closed while it is being mended tries nothing more', async () => {
  const { network, advance, methods } = await live();
  network.carries = () => false;
  await advance(SILENT_MS + 600);
  await Promise.all([client.close(), advance(GIVE_UP_MS)]);
  assert.equal(methods(), 'POST PATCH DELETE');
});

test('a call that is closed while another connection is on its way closes both', async () => {
  const { network, server, advance } = await live();
  network.carries = () => false;
  server.PATCH = () => refusal('session_not_found', 404);
  while (FakePeer.all.length < 2) await advance(100);
  await settle();
  client.close({ atOnce: true });
  assert.deepEqual(FakePeer.all.map(({ closed }) => closed), [true, true]);
});

test('a hidden page loses nothing, whatever its clocks do, and is not mistaken for a silent line', async () => {
  const { browser, network, advance, methods, told } = await live();
  browser.show('hidden');
  network.carries = (peer, nowMs) => nowMs % 10_000 < 20; // as readings of a throttled page look
  await advance(120_000);
  network.carries = () => true;
  browser.show('visible');
  await advance(3_000);
  assert.equal(methods(), 'POST');
  assert.deepEqual(told, ['sound']);
});

test('a page that is seen again with a broken line mends it at once', async () => {
  const { browser, network, advance, peer, methods } = await live();
  browser.show('hidden');
  network.carries = () => false;
  peer.connectionState = 'disconnected';
  await advance(20_000);
  assert.equal(methods(), 'POST');
  network.carries = () => true;
  browser.show('visible');
  await advance(300);
  assert.equal(methods(), 'POST PATCH');
});

test('a page that goes away closes its connection and not the call, and goes on when it is shown again', async () => {
  const { browser, advance, peer, methods, told, asked } = await live();
  peer.channel.receive({ type: 'response.delta', seq: 8, data: 'x' });
  browser.window('pagehide', { persisted: true });
  assert.ok(peer.closed);
  assert.deepEqual(client.resumption, { token: 'secret', lastEvent: 8 });
  await advance(4_000);
  assert.equal(methods(), 'POST');
  browser.window('pageshow', { persisted: true });
  await connectNew();
  await advance(1_000);
  assert.equal(methods(), 'POST POST');
  assert.equal(asked[1].last_event, 8);
  assert.deepEqual(told, ['degraded: network', 'track', 'live']);
});

test('a microphone that ended while the page was away is replaced once, and the agent hears it', async () => {
  const { browser, advance, told, microphones } = await live();
  browser.window('pagehide', { persisted: true });
  microphones[0].track.happens('ended'); // as iOS does
  await settle();
  browser.window('pageshow', { persisted: true });
  await connectNew();
  await advance(1_000);
  assert.deepEqual(told.filter((what) => what.startsWith('microphone')), ['microphone lost', 'microphone live']);
  assert.equal(microphones.length, 2);
  const sent = [...FakePeer.newest.tracks, ...FakePeer.newest.replaced];
  assert.equal(sent.at(-1), microphones[1].track);
  await client.close({ atOnce: true });
  assert.ok(microphones[1].track.stopped);
});

test('a page that goes away before there is anything to come back to gives its slot back', async () => {
  const { browser, methods } = await live({ token: null });
  browser.window('pagehide');
  assert.equal(methods(), 'POST DELETE');
  assert.equal(client.resumption, null);
});

test('a page that goes away while it takes a conversation over ends it for nobody', async () => {
  const asked = [];
  const browser = fakeBrowser();
  const fetch = (url, init) => {
    if (init.method === 'GET') return Promise.resolve(json({}));
    asked.push(init.method);
    return Promise.resolve(json({ id: 's1', sdp: 'v=0 answer', type: 'answer' }, 201));
  };
  client = new RtcClient({ fetch, RTCPeerConnection: FakePeer, around: browser.around, iceServers: [] });
  client.connect({ microphone: new FakeStream(), resume: { token: 't', lastEvent: 1 } }).catch(() => {});
  await settle();
  browser.window('pagehide');
  await settle();
  assert.deepEqual([asked, client.state], [['POST'], 'ended']);
});

test('another page takes the conversation over', async () => {
  const { asked, told } = await live({ resume: { token: 'handed over', lastEvent: 40 } });
  assert.deepEqual(asked[0], { method: 'POST', sdp: 'v=0 offer', type: 'offer', resume: 'handed over', last_event: 40 });
  FakePeer.newest.channel.receive([{ type: 'session.created', seq: 1 }, { type: 'session.resumed', seq: 41 }]);
  assert.deepEqual(client.resumption, { token: 'secret', lastEvent: 41 });
  assert.deepEqual(told, ['live']);
});

test('a conversation that cannot be taken over here is not ended for others', async () => {
  const asked = [];
  const fetch = async (url, { method }) => {
    asked.push(method);
    return method === 'GET' ? json({}) : refusal('session_not_found', 404);
  };
  client = new RtcClient({ fetch, RTCPeerConnection: FakePeer, around: {} });
  await assert.rejects(client.connect({ resume: { token: 't', lastEvent: 0 } }), { code: 'session_not_found' });
  assert.deepEqual(asked, ['GET', 'POST']);
});

test('a microphone that a phone call took is asked for again, and the page is told to play', async () => {
  const { browser, advance, peer, told, microphones } = await live();
  microphones[0].track.happens('mute');
  browser.show('visible');
  await advance(1_500);
  assert.deepEqual(told, ['microphone interrupted', 'sound', 'microphone live', 'sound']);
  assert.deepEqual(peer.replaced, [microphones[1].track]);
});

test('another headset: the page is told to play', async () => {
  const { browser, told } = await live();
  browser.devices();
  assert.deepEqual(told, ['sound']);
});

test('after the end nobody listens to the browser any more', async () => {
  const { browser, advance, methods, told } = await live();
  await Promise.all([client.close(), advance(600)]);
  browser.window('online');
  browser.devices();
  browser.show('visible');
  browser.window('pageshow', { persisted: true });
  await advance(5_000);
  assert.equal(methods(), 'POST DELETE');
  assert.deepEqual(told, ['ended: closed']);
});

for (const [how, hangs] of [
  ['no answer comes', () => ({ PATCH: never, POST: never, GET: never })],
  ['answers come late', (late) => ({ PATCH: late, POST: late, GET: late })],
  ['answers come, and no sound', () => ({})],
]) {
  test(`half a minute is half a minute where ${how}`, async () => {
    const { network, server, advance, told } = await live();
    network.carries = () => false;
    Object.assign(server, hangs((signal) => new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
      setTimeout(() => reject(new TypeError('network')), 5_900);
    })));
    while (!told.length) await advance(20);
    const brokeMs = time.now();
    while (client.state !== 'ended') await advance(20);
    assert.deepEqual(told, ['degraded: network', 'ended: connection_lost']);
    const tookMs = time.now() - brokeMs;
    assert.ok(tookMs >= GIVE_UP_MS - 4_100 && tookMs <= GIVE_UP_MS + 100, `${tookMs} ms`);
  });
}
