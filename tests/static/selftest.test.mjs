import assert from 'node:assert/strict';
import { test } from 'node:test';

import { CallError } from '../../static/client/errors.js';
import { SelfTest } from '../../static/page/selftest.js';

const DIRECT = { isRelayed: false, protocol: 'udp', roundTripMs: 1, address: '192.0.2.1:5000' };

function testing({ level = 0.1, canMeasure = true, microphone, network = async () => DIRECT, chime = async () => {} } = {}) {
  const findings = [];
  const track = { stopped: false, stop: () => (track.stopped = true) };
  const stream = { getTracks: () => [track] };
  const meter = { read: () => (typeof level === 'function' ? level() : level), canMeasure, closed: false, close: () => (meter.closed = true) };
  const selfTest = new SelfTest(
    { openMicrophone: microphone ?? (async () => stream), measure: () => meter, testNetwork: network, playChime: chime },
    (check, { verdict, code }) => findings.push(`${check} ${verdict} ${code}`.trim()),
  );
  return { selfTest, findings, track, meter };
}

async function passing(t, ms) {
  for (let elapsed = 0; elapsed <= ms; elapsed += 50) {
    await new Promise((resolve) => setImmediate(resolve));
    t.mock.timers.tick(50);
  }
}

test('a microphone that hears, a network that is open and a speaker that sounds', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { selfTest, findings, track, meter } = testing();
  selfTest.start();
  await passing(t, 500);
  selfTest.answer(true);
  assert.deepEqual(findings.slice(0, 3), ['microphone running', 'network running', 'speaker running']);
  assert.deepEqual(findings.slice(3).sort(), ['microphone good heard', 'network good direct', 'speaker asking', 'speaker good heard']);
  assert.ok(track.stopped && meter.closed);
});

test('silence is told after a while and does not end the listening', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let level = 0;
  const { selfTest, findings } = testing({ level: () => level });
  selfTest.start();
  await passing(t, 7_000);
  assert.ok(findings.includes('microphone unsure silent'));
  level = 0.1;
  await passing(t, 500);
  assert.equal(findings.at(-1), 'microphone good heard');
});

test('a click is no voice', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let reads = 0;
  const { selfTest, findings } = testing({ level: () => (reads++ === 3 ? 1 : 0) });
  selfTest.start();
  await passing(t, 1_000);
  assert.ok(!findings.includes('microphone good heard'));
  selfTest.stop();
});

test('a browser that does not let the page measure says so', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { selfTest, findings } = testing({ level: 0, canMeasure: false });
  selfTest.start();
  await passing(t, 7_000);
  assert.ok(findings.includes('microphone unsure unmeasured'));
  selfTest.stop();
});

test('what fails says why, and the others go on', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { selfTest, findings } = testing({
    microphone: async () => {
      throw new CallError('microphone_denied', 'no');
    },
    network: async () => {
      throw new CallError('ice_failed', 'no way');
    },
    chime: async () => {
      throw new DOMException('', 'NotAllowedError');
    },
  });
  selfTest.start();
  await passing(t, 100);
  assert.deepEqual(findings.slice(3).sort(), ['microphone bad microphone_denied', 'network bad ice_failed', 'speaker bad NotAllowedError']);
});

test('a relayed call is told apart', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { selfTest, findings } = testing({ network: async () => ({ ...DIRECT, isRelayed: true }) });
  selfTest.start();
  await passing(t, 100);
  assert.ok(findings.includes('network good relayed'));
  selfTest.stop();
});

test('after its end nothing is told, and the microphone is given back', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { selfTest, findings, track } = testing({ level: 0 });
  selfTest.start();
  await passing(t, 200);
  selfTest.stop();
  const told = findings.length;
  await passing(t, 7_000);
  assert.equal(findings.length, told);
  assert.ok(track.stopped);
});
