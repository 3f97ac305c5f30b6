import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Playhead } from '../../static/client/playhead.js';
import { MAX_TURNS, Transcript } from '../../static/client/transcript.js';

const LOUD = 0;
const MS = 48;

/** A transcript, its log of changes, and a playhead whose RTP time 0 is heard at 0 ms. */
function scene() {
  /** @type {string[]} */
  const changes = [];
  const transcript = new Transcript((turn, change) => changes.push(`${turn.side} ${change}`));
  const playhead = new Playhead();
  const tick = (nowMs, quietMs = LOUD) => {
    playhead.update(nowMs * MS, nowMs);
    transcript.tick(playhead, quietMs, nowMs);
  };
  return { transcript, playhead, changes, tick };
}

const texts = (transcript) => transcript.turns.map((turn) => `${turn.side}: ${turn.words.map((word) => word.text).join(' ')}`);
const delta = (data, atMs) => ({ data, rtp_timestamp: atMs === null ? null : atMs * MS });
const cuts = (turn) => turn.words.filter((word) => word.cut).map((word) => word.text);

test('a word is shown when the playhead reaches it and not before', () => {
  const { transcript, tick } = scene();
  transcript.agentDelta(delta('Hello', 200), 0);
  tick(199);
  assert.deepEqual(texts(transcript), []);
  tick(200);
  assert.deepEqual(texts(transcript), ['agent: Hello']);
});

test('pieces join into words at their spaces', () => {
  const { transcript, tick } = scene();
  for (const piece of ['Hel', 'lo', ',', ' my', ' name is', ' ', 'Ann', '.']) transcript.agentDelta(delta(piece, 10), 0);
  tick(10);
  assert.deepEqual(transcript.turns[0].words.map((word) => word.text), ['Hello,', 'my', 'name', 'is', 'Ann.']);
});

test('words keep their order although a later one is due earlier', () => {
  const { transcript, tick } = scene();
  transcript.agentDelta(delta('one', 300), 0);
  transcript.agentDelta(delta(' two', 100), 0);
  tick(200);
  assert.deepEqual(texts(transcript), []);
  tick(300);
  assert.deepEqual(texts(transcript), ['agent: one two']);
});

test('without a playhead a fixed delay stands in', () => {
  const transcript = new Transcript();
  transcript.agentDelta(delta('Hello', 5_000), 1_000);
  transcript.tick(new Playhead(), LOUD, 1_149);
  assert.equal(transcript.turns.length, 0);
  transcript.tick(new Playhead(), LOUD, 1_150);
  assert.equal(transcript.turns.length, 1);
});

test('a timestamp of another clock does not hold a word back', () => {
  const { transcript, tick } = scene();
  transcript.agentDelta(delta('Hello', 1_000_000), 0);
  tick(150);
  assert.deepEqual(texts(transcript), ['agent: Hello']);
});

test('an interruption marks the word after which the agent fell silent', () => {
  const { transcript, tick } = scene();
  for (const [index, word] of ['Once', ' upon', ' a'].entries()) transcript.agentDelta(delta(word, index * 100), 0);
  tick(300);
  transcript.bargeIn(300);
  tick(500);
  assert.deepEqual(cuts(transcript.turns[0]), []);
  tick(900, 400);
  assert.deepEqual(cuts(transcript.turns[0]), ['a']);
  assert.ok(transcript.turns[0].interrupted && transcript.turns[0].final);
});

test('an answer that is on its way already hides no interruption', () => {
  const { transcript, tick } = scene();
  for (const [index, word] of ['Once', ' upon', ' a'].entries()) transcript.agentDelta(delta(word, index * 100), 0);
  tick(300);
  transcript.bargeIn(300);
  transcript.agentDelta(delta(' Okay,', 840), 540);
  for (let nowMs = 320; nowMs < 900; nowMs += 20) tick(nowMs, Math.min(nowMs - 300, 540));
  assert.deepEqual(texts(transcript), ['agent: Once upon a', 'agent: Okay,']);
  assert.deepEqual(cuts(transcript.turns[0]), ['a']);
});

test('a pause between two sentences is no interruption, though somebody speaks', () => {
  const { transcript, tick } = scene();
  for (const [index, word] of ['He', ' saw', ' it.'].entries()) transcript.agentDelta(delta(word, index * 100), 0);
  tick(300);
  transcript.bargeIn(300);
  transcript.agentDelta(delta(' Then', 740), 500);
  for (let nowMs = 320; nowMs < 740; nowMs += 20) tick(nowMs, nowMs - 300);
  for (let nowMs = 740; nowMs < 2_600; nowMs += 20) tick(nowMs);
  assert.deepEqual(texts(transcript), ['agent: He saw it. Then']);
  assert.deepEqual(cuts(transcript.turns[0]), []);
});

test('an agent that goes on speaking was not interrupted', () => {
  const { transcript, tick } = scene();
  transcript.agentDelta(delta('Once', 0), 0);
  tick(0);
  transcript.bargeIn(100);
  for (let nowMs = 200; nowMs < 3_000; nowMs += 100) {
    transcript.agentDelta(delta(' more', nowMs), nowMs);
    tick(nowMs);
  }
  tick(3_500, 500);
  assert.deepEqual(cuts(transcript.turns[0]), []);
  assert.equal(transcript.turns[0].interrupted, false);
});

test('words of dropped audio are never shown, and the one before them is cut', () => {
  const { transcript, playhead, tick } = scene();
  for (const [index, word] of ['Once', ' upon', ' a', ' time'].entries()) transcript.agentDelta(delta(word, index * 200), 0);
  tick(200);
  transcript.cancelled({ dropped_ms: 300 }, playhead, 200);
  tick(1_000);
  assert.deepEqual(texts(transcript), ['agent: Once upon']);
  assert.deepEqual(cuts(transcript.turns[0]), ['upon']);
});

test('nothing is cut where nothing was dropped', () => {
  const { transcript, playhead, tick } = scene();
  transcript.agentDelta(delta('Hello', 0), 0);
  tick(0);
  transcript.cancelled({ dropped_ms: 0 }, playhead, 10);
  assert.deepEqual(cuts(transcript.turns[0]), []);
});

test('interim words of the user are replaced by the final ones', () => {
  const { transcript, changes } = scene();
  transcript.userStarted({ audio_ms: 100 }, 100);
  transcript.userWords({ item: 0, text: 'what time', final: false, start_ms: 100, end_ms: 700 }, 800);
  transcript.userStopped({ audio_ms: 1_200 }, 1_300);
  transcript.userWords({ item: 0, text: 'What time is it?', final: true, start_ms: 100, end_ms: 1_200 }, 1_500);
  assert.deepEqual(texts(transcript), ['user: What time is it?']);
  assert.deepEqual(changes, ['user changed', 'user changed', 'user changed', 'user changed', 'user final']);
});

test('words without a speech event get a turn of their own', () => {
  const { transcript } = scene();
  transcript.userWords({ item: 7, text: 'Hello', final: true, start_ms: 0, end_ms: 500 }, 600);
  transcript.userWords({ item: 8, text: '', final: true, start_ms: 900, end_ms: 950 }, 1_000);
  assert.deepEqual(texts(transcript), ['user: Hello']);
});

test('a remark whose words never come says how long it was', () => {
  const { transcript, tick } = scene();
  transcript.userStarted({ audio_ms: 1_000 }, 1_000);
  transcript.userStopped({ audio_ms: 3_400 }, 3_500);
  tick(9_000, 9_000);
  assert.equal(transcript.turns[0].spokeMs, 2_400);
  assert.ok(transcript.turns[0].final);
});

test('a noise without words vanishes where the engine recognises words', () => {
  const { transcript, tick } = scene();
  transcript.userWords({ item: 0, text: 'Hello', final: true, start_ms: 0, end_ms: 500 }, 600);
  transcript.userStarted({ audio_ms: 2_000 }, 2_000);
  transcript.userStopped({ audio_ms: 2_900 }, 3_000);
  assert.equal(transcript.turns.length, 2);
  tick(7_100, 7_100);
  assert.deepEqual(texts(transcript), ['user: Hello']);
});

test('late words go to the remark that they were said in', () => {
  const { transcript } = scene();
  transcript.userStarted({ audio_ms: 0 }, 0);
  transcript.userStopped({ audio_ms: 800 }, 900);
  transcript.userStarted({ audio_ms: 1_500 }, 1_600);
  transcript.userWords({ item: 0, text: 'first', final: true, start_ms: 0, end_ms: 800 }, 1_700);
  transcript.userStopped({ audio_ms: 2_500 }, 2_600);
  transcript.userWords({ item: 1, text: 'second', final: true, start_ms: 1_500, end_ms: 2_500 }, 2_700);
  assert.deepEqual(texts(transcript), ['user: first', 'user: second']);
});

test('a short remark does not split the turn of an agent that goes on', () => {
  const { transcript, tick } = scene();
  transcript.agentDelta(delta('Once upon', 0), 0);
  tick(0);
  transcript.userStarted({ audio_ms: 100 }, 100);
  transcript.userStopped({ audio_ms: 500 }, 600);
  transcript.agentDelta(delta(' a time', 800), 800);
  tick(800);
  assert.equal(transcript.turns.filter((turn) => turn.side === 'agent').length, 1);
});

test('after a pause in which the user spoke the agent begins a new turn', () => {
  const { transcript, tick } = scene();
  transcript.agentDelta(delta('Hello.', 0), 0);
  tick(0);
  transcript.userWords({ item: 0, text: 'Hi', final: true, start_ms: 500, end_ms: 900 }, 1_000);
  tick(1_500, 1_400);
  transcript.agentDelta(delta(' How are you?', 2_000), 2_000);
  tick(2_000);
  assert.deepEqual(texts(transcript), ['agent: Hello.', 'user: Hi', 'agent: How are you?']);
});

test('an agent that speaks up after a long silence begins a new turn', () => {
  const { transcript, tick } = scene();
  transcript.agentDelta(delta('Okay.', 0), 0);
  tick(0);
  tick(5_000, 4_900);
  transcript.agentDelta(delta('Your timer is up.', 60_000), 60_000);
  tick(60_000);
  assert.deepEqual(texts(transcript), ['agent: Okay.', 'agent: Your timer is up.']);
});

test('the end of the call drops what was not heard and finishes what was', () => {
  const { transcript, tick, changes } = scene();
  transcript.agentDelta(delta('Hello', 0), 0);
  transcript.agentDelta(delta(' there', 900), 0);
  tick(0);
  transcript.userStarted({ audio_ms: 0 }, 10);
  transcript.end();
  assert.deepEqual(texts(transcript), ['agent: Hello']);
  assert.ok(transcript.turns[0].final);
  assert.equal(changes.at(-1), 'user removed');
});

function remark(transcript, item, text = 'word') {
  transcript.userWords({ item, text, final: true, start_ms: item * 10, end_ms: item * 10 + 5 }, item);
}

test('an endless call keeps a bounded number of turns, and counts the others, which were said all the same', () => {
  const { transcript, changes } = scene();
  for (let item = 0; item < 1_000; item++) remark(transcript, item);
  assert.deepEqual([transcript.turns.length, transcript.left], [MAX_TURNS, 1_000 - MAX_TURNS]);
  assert.equal(changes.filter((change) => change === 'user left').length, transcript.left);
  assert.ok(!changes.includes('user removed'));
});

test('a turn that goes on does not leave for its age', () => {
  const { transcript, tick } = scene();
  transcript.agentDelta(delta('Once', 0), 0);
  tick(0);
  for (let item = 0; item < MAX_TURNS + 10; item++) remark(transcript, item);
  assert.deepEqual(texts(transcript).slice(0, 2), ['agent: Once', 'user: word']);
  assert.equal(transcript.left, 11);
});

test('all that is kept goes on to another page, as far as a tab can hold it, and the other knows how much came before', () => {
  const first = scene();
  for (let item = 0; item < MAX_TURNS; item++) remark(first.transcript, item, 'some words of ordinary length');
  assert.equal(first.transcript.kept(9_000).length, MAX_TURNS);
  const long = scene();
  for (let item = 0; item < MAX_TURNS; item++) remark(long.transcript, item, `${item} ${'word '.repeat(500)}`);
  const kept = long.transcript.kept(9_000);
  assert.ok(kept.length > 50 && kept.length < MAX_TURNS && JSON.stringify(kept).length < 1_100_000, `${kept.length} turns`);
  assert.equal(kept.at(-1).words[0].text, String(MAX_TURNS - 1));
  const second = scene();
  second.transcript.restore(kept, 10_000, 7);
  remark(second.transcript, 0);
  assert.equal(second.transcript.left, 7);
});

test('what was said goes on to another page, about-to-be-heard words included, and can be replayed after', () => {
  const first = scene();
  first.transcript.userWords({ item: 0, text: 'Tell me', final: true, start_ms: 0, end_ms: 500 }, 1_000);
  first.transcript.agentDelta(delta(' Once upon', 5_000), 4_900);
  const kept = JSON.parse(JSON.stringify(first.transcript.kept(6_000)));
  assert.deepEqual(kept.map(({ agoMs }) => agoMs), [5_000, 0]);

  const second = scene();
  second.transcript.restore(kept, 500);
  second.transcript.agentDelta(delta(' a time', null), 500);
  second.tick(1_000);
  assert.deepEqual(texts(second.transcript), ['user: Tell me', 'agent: Once upon', 'agent: a time']);
  assert.deepEqual(second.transcript.turns.map(({ final }) => final), [true, true, false]);
  assert.equal(new Set(second.transcript.turns.map(({ id }) => id)).size, 3);
});

test('what has arrived is coming, and becomes a word when it is heard', () => {
  const { transcript, tick, changes } = scene();
  for (const [index, word] of ['Once', ' upon', ' a'].entries()) transcript.agentDelta(delta(word, 100 * index), 0);
  tick(0);
  const [turn] = transcript.turns;
  assert.deepEqual(texts(transcript), ['agent: Once']);
  assert.deepEqual(turn.coming, ['upon', 'a']);
  tick(100);
  assert.deepEqual([texts(transcript)[0], turn.coming], ['agent: Once upon', ['a']]);
  const told = changes.length;
  transcript.agentDelta(delta(' time', 300), 110);
  assert.deepEqual(turn.coming, ['a', 'time']);
  assert.equal(changes.length, told + 1);
});

test('the rest of a word that has begun is told apart from the words after it', () => {
  const { transcript, tick } = scene();
  for (const [index, piece] of ['inter', 'rupt', ' me'].entries()) transcript.agentDelta(delta(piece, 100 * index), 0);
  tick(0);
  const [turn] = transcript.turns;
  assert.deepEqual([texts(transcript)[0], turn.rest, turn.coming], ['agent: inter', 'rupt', ['me']]);
  tick(100);
  assert.deepEqual([texts(transcript)[0], turn.rest, turn.coming], ['agent: interrupt', '', ['me']]);
});

test('what never will be heard is not coming any more', () => {
  const { transcript, playhead, tick } = scene();
  for (const [index, word] of ['Once', ' upon', ' a'].entries()) transcript.agentDelta(delta(word, 400 * index), 0);
  tick(0);
  transcript.cancelled({ dropped_ms: 300 }, playhead, 10);
  assert.deepEqual(transcript.turns[0].coming, []);
  const other = scene();
  for (const [index, word] of ['Once', ' upon'].entries()) other.transcript.agentDelta(delta(word, 400 * index), 0);
  other.tick(0);
  other.transcript.end();
  assert.deepEqual([texts(other.transcript)[0], other.transcript.turns[0].coming], ['agent: Once', []]);
});

test('a word that begins within its frame is heard a little after it', () => {
  const transcript = new Transcript(() => {}, { wordAfterMs: 40 });
  const playhead = new Playhead();
  transcript.agentDelta(delta('Hello', 200), 0);
  playhead.update(200 * MS, 200);
  assert.equal(transcript.hear(playhead, 200), 40);
  assert.deepEqual(texts(transcript), []);
  playhead.update(240 * MS, 240);
  assert.equal(transcript.hear(playhead, 240), null);
  assert.deepEqual(texts(transcript), ['agent: Hello']);
});

test('after the end the words of another call follow, whatever the one before knew of its caller', () => {
  const { transcript, tick } = scene();
  transcript.userWords({ item: 0, text: 'Hello', final: true, start_ms: 0, end_ms: 900 }, 900);
  transcript.agentDelta(delta('Good', 1_000), 1_000);
  tick(1_000);
  transcript.end();
  transcript.userStarted({ audio_ms: 100 }, 9_000);
  transcript.userStopped({ audio_ms: 700 }, 9_600);
  tick(20_000);
  assert.deepEqual(texts(transcript), ['user: Hello', 'agent: Good', 'user: ']);
  assert.equal(transcript.turns[2].spokeMs, 600);
});
