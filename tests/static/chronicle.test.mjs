import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Chronicle, MAX_HAPPENINGS, MAX_TURNS } from '../../static/page/chronicle.js';
import { Emitter } from '../../static/page/emitter.js';

function kept() {
  let nowMs = 10_000;
  const chronicle = new Chronicle(() => nowMs);
  chronicle.began(10_000);
  return { chronicle, at: (ms) => (nowMs = 10_000 + ms) };
}

const turn = (id, side, text, more = {}) => ({
  id,
  side,
  words: text.split(' ').filter(Boolean).map((word) => ({ text: word, cut: false })),
  final: false,
  interrupted: false,
  startedMs: 10_000,
  spokeMs: null,
  ...more,
});

test('each word has the time at which it was heard', () => {
  const { chronicle, at } = kept();
  at(1000);
  chronicle.turn(turn(1, 'agent', 'good', { startedMs: 11_000 }), 'changed');
  at(1400);
  chronicle.turn(turn(1, 'agent', 'good morning', { startedMs: 11_000 }), 'changed');
  at(5000);
  chronicle.turn(turn(1, 'agent', 'good morning', { startedMs: 11_000, final: true }), 'final');
  const [passage] = chronicle.passages();
  assert.deepEqual(passage.words.map(({ text, atMs }) => [text, atMs]), [['good', 1000], ['morning', 1400]]);
  assert.deepEqual([passage.startMs, passage.endMs], [1000, 2000]);
});

test('a word that nobody has heard yet is not kept', () => {
  const { chronicle } = kept();
  const pending = turn(1, 'agent', 'good', { coming: ['morning'] });
  chronicle.turn(pending, 'changed');
  assert.deepEqual(chronicle.passages()[0].words.map(({ text }) => text), ['good']);
});

test('turns lie in the order in which they began, and one that was taken back is gone', () => {
  const { chronicle, at } = kept();
  at(3000);
  chronicle.turn(turn(1, 'agent', 'second', { startedMs: 12_000 }), 'changed');
  chronicle.turn(turn(2, 'user', 'first', { startedMs: 11_000, spokeMs: 2500 }), 'changed');
  chronicle.turn(turn(3, 'user', 'cough'), 'changed');
  chronicle.turn(turn(3, 'user', 'cough'), 'removed');
  chronicle.turn(turn(4, 'user', '', { spokeMs: 400 }), 'final');
  assert.deepEqual(chronicle.passages().map(({ words }) => words[0].text), ['first', 'second']);
});

test('words of before the call never count backwards', () => {
  const { chronicle } = kept();
  chronicle.turn(turn(1, 'agent', 'hello', { startedMs: 9_000 }), 'changed');
  assert.equal(chronicle.passages()[0].startMs, 0);
});

test('events are kept up to a bound, the newest ones, and without the secret to the call', () => {
  const { chronicle, at } = kept();
  at(250);
  chronicle.happened({ type: 'session.created', id: 'a', resume_token: 'secret' });
  assert.deepEqual(JSON.parse(JSON.stringify(chronicle.happenings)), [{ at_ms: 250, event: { type: 'session.created', id: 'a' } }]);
  for (let count = 0; count < MAX_HAPPENINGS; count++) chronicle.happened({ type: 'session.stats', count });
  assert.equal(chronicle.happenings.length, MAX_HAPPENINGS);
  assert.equal(chronicle.left, 1);
  chronicle.clear();
  assert.ok(chronicle.isEmpty);
});

/** One that follows a conversation, and what it keeps as pairs of word and time. */
function following() {
  const { chronicle, at } = kept();
  const conversation = new Emitter();
  chronicle.follow(conversation);
  const words = () => chronicle.passages().flatMap((passage) => passage.words.map(({ text, atMs }) => [text, atMs]));
  return { conversation, chronicle, at, words };
}

test('a call that is made again goes on where the one before broke', () => {
  const { conversation, at, words, chronicle } = following();
  conversation.emit('fresh');
  conversation.emit('began', 10_000);
  at(2_000);
  conversation.emit('turn', turn(1, 'user', 'before', { startedMs: 12_000 }), 'changed');
  conversation.emit('server', { type: 'session.ended' });
  conversation.emit('client', {});
  at(9_000);
  conversation.emit('turn', turn(2, 'user', 'after', { startedMs: 19_000 }), 'changed');
  assert.deepEqual(words(), [['before', 2_000], ['after', 9_000]]);
  assert.equal(chronicle.happenings.length, 1);
  conversation.emit('fresh');
  assert.ok(chronicle.isEmpty);
});

test('words of an earlier page have the time of their turn', () => {
  const { conversation, at, words } = following();
  at(60_000);
  conversation.emit('fresh');
  conversation.emit('began', 10_000);
  conversation.emit('turn', turn(1, 'agent', 'good morning', { startedMs: 15_000, final: true }), 'changed');
  conversation.emit('turn', turn(2, 'user', 'hello', { startedMs: 17_000, spokeMs: 900, final: true }), 'changed');
  conversation.emit('client', {});
  assert.deepEqual(words(), [['good', 5_000], ['morning', 5_000], ['hello', 7_000]]);
});

test('what has left the page for its age stays in the files; what was nothing does not', () => {
  const { conversation, words } = following();
  conversation.emit('fresh');
  const said = turn(1, 'user', 'hello', { final: true });
  for (const change of ['final', 'left']) conversation.emit('turn', said, change);
  const noise = turn(2, 'user', 'uh');
  for (const change of ['changed', 'removed']) conversation.emit('turn', noise, change);
  assert.deepEqual(words().map(([text]) => text), ['hello']);
});

test('turns are kept up to a bound, the newest ones, and those that are not are counted, with those of earlier pages', () => {
  const { conversation, chronicle, words } = following();
  conversation.emit('fresh');
  conversation.emit('left', 3);
  for (let id = 1; id <= MAX_TURNS + 2; id++) conversation.emit('turn', turn(id, 'user', `${id}`, { final: true }), 'final');
  assert.deepEqual([chronicle.passages().length, words()[0][0], chronicle.turnsLeft], [MAX_TURNS, '3', 5]);
  conversation.emit('fresh');
  assert.equal(chronicle.turnsLeft, 0);
});
