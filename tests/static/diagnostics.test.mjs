import assert from 'node:assert/strict';
import { test } from 'node:test';

import { diagnose, Notes } from '../../static/page/diagnostics.js';
import { Figures } from '../../static/page/figures.js';

const situation = (changes = {}) => ({
  at: new Date(0), server: null, state: 'failed', sessionId: null, durationMs: null, muted: false, voice: '', personaChars: 0,
  figures: new Figures(), latency: null, stats: null, microphone: null, notes: [],
  browser: { userAgent: 'Test/1', languages: ['en'], isSecure: true, isOnline: true, canRecord: true, canChooseSpeaker: false },
  ...changes,
});

test('a call that never came to be can be described', () => {
  const described = JSON.parse(diagnose(situation()));
  assert.equal(described.call.state, 'failed');
  assert.equal(described.server, null);
  assert.equal(described.browser.userAgent, 'Test/1');
});

test('a call is described by its path, its delays and its last minute', () => {
  const figures = new Figures();
  figures.serverStats({ tick_ms: 4.56789, jitter_delay_ms: 21, loss: 0 });
  figures.read({ packetsReceived: 50, packetsLost: 0, roundTripMs: 3 });
  const stats = { localCandidate: 'relay', remoteCandidate: 'host', protocol: 'udp', roundTripMs: 3, packetsReceived: 50, packetsLost: 0, concealedSamples: 7 };
  const described = JSON.parse(diagnose(situation({ figures, stats, latency: { totalMs: 93, parts: [{ part: 'frame', ms: 80 }] } })));
  assert.deepEqual(described.path, { local: 'relay', remote: 'host', protocol: 'udp', round_trip_ms: 3 });
  assert.deepEqual(described.delay_ms, { frame: 80 });
  assert.deepEqual(described.last_minute.tick, { least: 4.568, median: 4.568, most: 4.568 });
});

test('notes say what happened and not what was said', () => {
  const notes = new Notes(() => new Date(1_000));
  notes.server({ type: 'session.created', id: 'x', resume_token: 'secret' });
  notes.server({ type: 'response.delta', data: 'hello' });
  notes.server({ type: 'input.transcript', text: 'my name' });
  notes.server({ type: 'session.ended', reason: 'idle' });
  assert.deepEqual(notes.kept.map(({ what }) => what), ['session.created', 'session.ended idle']);
  assert.equal(notes.kept[0].at, '00:00:01.000');
  for (let count = 0; count < 200; count++) notes.add(`note ${count}`);
  assert.equal(notes.kept.length, 100);
  assert.equal(notes.kept.at(-1).what, 'note 199');
});
