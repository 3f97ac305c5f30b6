import assert from 'node:assert/strict';
import { test } from 'node:test';

import { CallError } from '../../static/client/errors.js';
import { testNetwork } from '../../static/client/network_test.js';

function network({ says = { type: 'connectivity.ok', address: '192.0.2.1:5000' }, local = { candidateType: 'host', protocol: 'udp' }, refuses } = {}) {
  const peers = [];
  class PeerConnection extends EventTarget {
    connectionState = 'new';
    localDescription = null;
    channel = new EventTarget();
    closed = false;
    constructor(options) {
      super();
      this.options = options;
      peers.push(this);
    }
    createDataChannel() {
      return this.channel;
    }
    async setLocalDescription() {
      this.localDescription = { sdp: 'offer' };
    }
    async setRemoteDescription() {
      if (!says) return;
      this.channel.dispatchEvent(new MessageEvent('message', { data: '{"type":"other"}' }));
      this.channel.dispatchEvent(new MessageEvent('message', { data: JSON.stringify(says) }));
    }
    async getStats() {
      const pair = { type: 'candidate-pair', nominated: true, state: 'succeeded', currentRoundTripTime: 0.004, localCandidateId: 'a' };
      return new Map([['p', pair], ['a', { type: 'local-candidate', ...local }]]);
    }
    fail() {
      this.connectionState = 'failed';
      this.dispatchEvent(new Event('connectionstatechange'));
    }
    close() {
      this.closed = true;
    }
  }
  const api = {
    iceServers: async () => [{ urls: 'turn:relay.example' }],
    async testConnectivity(sdp) {
      assert.equal(sdp, 'offer');
      if (refuses) throw refuses;
      return { id: 'x', sdp: 'answer', type: 'answer' };
    },
  };
  return { api, PeerConnection, peers };
}

test('a way to the server is described', async () => {
  const { api, PeerConnection, peers } = network();
  const found = await testNetwork({ api, PeerConnection });
  assert.deepEqual(found, { isRelayed: false, protocol: 'udp', roundTripMs: 4, address: '192.0.2.1:5000' });
  assert.deepEqual(peers[0].options.iceServers, [{ urls: 'turn:relay.example' }]);
  assert.ok(peers[0].closed);
});

test('a relay is told apart', async () => {
  const found = await testNetwork(network({ local: { candidateType: 'relay', protocol: 'udp', relayProtocol: 'tcp' } }));
  assert.deepEqual([found.isRelayed, found.protocol], [true, 'tcp']);
});

test('what the server refuses with comes through, and the connection is closed', async () => {
  const { api, PeerConnection, peers } = network({ refuses: new CallError('too_many_tests', 'busy') });
  await assert.rejects(testNetwork({ api, PeerConnection }), { code: 'too_many_tests' });
  assert.ok(peers[0].closed);
});

test('no way, no time and no patience are errors', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const turns = () => new Promise((resolve) => setImmediate(resolve));
  const closed = network({ says: null });
  const failing = assert.rejects(testNetwork(closed), { code: 'ice_failed' });
  await turns();
  closed.peers[0].fail();
  await failing;
  const slow = assert.rejects(testNetwork(network({ says: null })), { code: 'ice_failed' });
  await turns();
  t.mock.timers.tick(15_000);
  await slow;
  const giveUp = new AbortController();
  const given = assert.rejects(testNetwork({ ...network({ says: null }), signal: giveUp.signal }), { code: 'cancelled' });
  await turns();
  giveUp.abort();
  await given;
  await assert.rejects(testNetwork({ api: closed.api, PeerConnection: null }), { code: 'no_webrtc' });
});

test('a test that was given up before it could begin asks the server for nothing, and says so at once', async () => {
  const gone = network();
  await assert.rejects(testNetwork({ ...gone, signal: AbortSignal.abort() }), { code: 'cancelled' });
  assert.equal(gone.peers.length, 0);
  for (const slow of ['iceServers', 'setLocalDescription', 'testConnectivity']) {
    const { api, PeerConnection, peers } = network({ says: null });
    const giveUp = new AbortController();
    const asked = [];
    const during = (owner, name) => {
      const usual = owner[name];
      owner[name] = async function (...given) {
        asked.push(name);
        if (name === slow) giveUp.abort();
        return usual.apply(this, given);
      };
    };
    during(api, 'iceServers');
    during(PeerConnection.prototype, 'setLocalDescription');
    during(api, 'testConnectivity');
    await assert.rejects(testNetwork({ api, PeerConnection, signal: giveUp.signal }), { code: 'cancelled' });
    assert.equal(asked.at(-1), slow, 'and nothing after it');
    assert.ok(peers.every(({ closed }) => closed));
  }
});

test('a test that is given up waits for nothing that is under way', { timeout: 5_000 }, async () => {
  const turns = () => new Promise((resolve) => setImmediate(resolve));
  for (const slow of ['iceServers', 'setLocalDescription', 'testConnectivity', 'setRemoteDescription', 'getStats']) {
    const { api, PeerConnection, peers } = network();
    (slow in api ? api : PeerConnection.prototype)[slow] = () => new Promise(() => {});
    const giveUp = new AbortController();
    let failure = null;
    testNetwork({ api, PeerConnection, signal: giveUp.signal }).catch((error) => (failure = error));
    await turns();
    giveUp.abort();
    await turns();
    assert.equal(failure?.code, 'cancelled', slow);
    assert.ok(peers.every(({ closed }) => closed));
  }
});

test('however a test ends, no timer and no listener stays behind', async (t) => {
  const started = t.mock.method(globalThis, 'setTimeout');
  const stopped = t.mock.method(globalThis, 'clearTimeout');
  for (const refuses of [undefined, new CallError('too_many_tests', 'busy')]) {
    const giveUp = new AbortController();
    const listens = t.mock.method(giveUp.signal, 'addEventListener');
    const before = started.mock.callCount();
    await testNetwork({ ...network({ refuses }), signal: giveUp.signal }).catch(() => {});
    const cleared = stopped.mock.calls.map(({ arguments: [timer] }) => timer);
    const timers = started.mock.calls.slice(before).map(({ result }) => result);
    assert.ok(timers.length > 0 && timers.every((timer) => cleared.includes(timer)));
    assert.ok(listens.mock.calls.length > 0);
    assert.ok(listens.mock.calls.every(({ arguments: [, , options] }) => options.signal.aborted));
  }
});
