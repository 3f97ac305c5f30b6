import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fileName, toJson, toText, toWebVtt } from '../../static/page/exports.js';

const NAMES = { you: 'You', agent: 'Agent', interrupted: 'interrupted' };
const word = (text, atMs, cut = false) => ({ text, atMs, cut });
const PASSAGES = [
  { side: 'agent', startMs: 1000, endMs: 2600, interrupted: true, words: [word('Once', 1000), word('upon', 1500, true)] },
  { side: 'user', startMs: 3_661_001, endMs: 3_662_000, interrupted: false, words: [word('a<b', 3_661_001), word('&', 3_661_500)] },
];

test('the text says who said what and when', () => {
  assert.equal(toText(PASSAGES, NAMES), '[00:01] Agent: Once upon (interrupted)\n[01:01:01] You: a<b &\n');
});

test('WebVTT has a cue for each turn and a time for each word, and nothing of it is taken for markup', () => {
  assert.equal(
    toWebVtt(PASSAGES, NAMES),
    'WEBVTT\n\n1\n00:00:01.000 --> 00:00:02.600\n<v Agent>Once <00:00:01.500>upon\n' +
      '\n2\n01:01:01.001 --> 01:01:02.000\n<v You>a&lt;b <01:01:01.500>&amp;\n',
  );
});

test('JSON has the turns, the words with their times, and every event', () => {
  const happenings = [{ at_ms: 5, event: { type: 'session.ready' } }];
  const call = JSON.parse(toJson({ about: { engine: 'echo' }, passages: PASSAGES, happenings, left: 3, turnsLeft: 2 }));
  assert.equal(call.engine, 'echo');
  assert.deepEqual(call.turns[0], {
    side: 'agent', text: 'Once upon', start_ms: 1000, end_ms: 2600, interrupted: true,
    words: [{ text: 'Once', at_ms: 1000 }, { text: 'upon', at_ms: 1500, cut: true }],
  });
  assert.deepEqual([call.events_left_out, call.turns_left_out], [3, 2]);
  assert.deepEqual(call.events, happenings);
});

test('files are named by the minute in which the call began', () => {
  assert.equal(fileName(new Date(2026, 0, 5, 9, 7), '.vtt'), 'call-2026-01-05-0907.vtt');
});

test('a file that lacks something says so first', () => {
  assert.match(toText(PASSAGES, NAMES, '5 are missing.'), /^\(5 are missing\.\)\n\[00:01\] Agent: /);
  assert.ok(toWebVtt(PASSAGES, NAMES, '5 --> missing.').startsWith('WEBVTT\n\nNOTE 5 --&gt; missing.\n\n1\n00:00:01.000 --> '));
});
