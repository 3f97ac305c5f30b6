import assert from 'node:assert/strict';
import { test } from 'node:test';

import { TurnTaking } from '../../static/page/turntaking.js';

const LOUD = 0.2;

/**
 * Lets both speak and tells what was found.
 *
 * @param {{user?: [number, number][], agent?: [number, number][], untilMs?: number, at?: Record<number, (turns: TurnTaking) => void>}} script
 *   Spans in ms. The server tells of the user's speech 160 ms after its beginning and 480 ms after its end.
 */
function play({ user = [], agent = [], untilMs = 12_000, at = {} }) {
  const seen = new Map();
  const log = [];
  const turns = new TurnTaking((moment, change) => {
    log.push(`${moment.kind} ${change}`);
    if (change === 'removed') seen.delete(moment.id);
    else seen.set(moment.id, moment);
  });
  const speaks = (spans, nowMs) => spans.some(([from, to]) => nowMs >= from && nowMs < to);
  for (let nowMs = 0; nowMs <= untilMs; nowMs += 20) {
    for (const [from, to] of user) {
      if (nowMs === from + 160) turns.userStarted({ audio_ms: from }, nowMs);
      if (nowMs === to + 480) turns.userStopped({ audio_ms: to }, nowMs);
    }
    at[nowMs]?.(turns);
    if (nowMs % 100 === 0) {
      turns.levels({ user: speaks(user, nowMs) ? LOUD : 0, agent: speaks(agent, nowMs) ? LOUD : 0, nowMs });
    }
  }
  return { turns, log, moments: [...seen.values()], kinds: [...seen.values()].map(({ kind, by }) => `${kind} by ${by}`) };
}

const bargeIn = (nowMs) => ({ [nowMs]: (turns) => turns.bargeIn(nowMs) });
const cancelled = (nowMs, dropped_ms) => ({ [nowMs]: (turns) => turns.cancelled({ dropped_ms }, nowMs) });

test('speaking one after the other is no overlap', () => {
  const { kinds, turns } = play({ user: [[1000, 3000]], agent: [[3200, 6000]] });
  assert.deepEqual(kinds, []);
  assert.deepEqual(turns.counts, { overlap: 0, backchannel: 0, interruption: 0 });
});

test('an answer that comes before the end of the question is an overlap, by the agent', () => {
  const { kinds, moments } = play({ user: [[1000, 3000]], agent: [[2700, 6000]] });
  assert.deepEqual(kinds, ['overlap by agent']);
  assert.equal(moments[0].startMs, 2700);
  assert.equal(moments[0].endMs, 3000);
});

test('a short remark that does not stop the agent is a backchannel', () => {
  const { kinds, turns } = play({ agent: [[1000, 8000]], user: [[3000, 3600]] });
  assert.deepEqual(kinds, ['backchannel by user']);
  assert.deepEqual(turns.counts, { overlap: 1, backchannel: 1, interruption: 0 });
});

test('a backchannel stays one although the server heard it as a barge-in', () => {
  assert.deepEqual(play({ agent: [[1000, 8000]], user: [[3000, 3700]], at: bargeIn(3400) }).kinds, ['backchannel by user']);
});

test('a backchannel stays one when the agent ends a second later', () => {
  assert.deepEqual(play({ agent: [[1000, 4800]], user: [[3000, 3500]] }).kinds, ['backchannel by user']);
});

test('the agent hums along as well', () => {
  assert.deepEqual(play({ user: [[1000, 8000]], agent: [[3000, 3600]] }).kinds, ['backchannel by agent']);
});

test('a long remark that does not stop the agent is an overlap', () => {
  assert.deepEqual(play({ agent: [[1000, 9000]], user: [[3000, 5000]], at: bargeIn(3400) }).kinds, ['overlap by user']);
});

test('the agent that soon falls silent was interrupted', () => {
  const { kinds, moments } = play({ agent: [[1000, 3800]], user: [[3000, 6000]] });
  assert.deepEqual(kinds, ['interruption by user']);
  assert.equal(moments[0].startMs, 3000);
  assert.ok(moments[0].endMs >= 3600 && moments[0].endMs <= 3800);
});

test('an agent that falls silent later was interrupted if the server heard a barge-in', () => {
  assert.deepEqual(play({ agent: [[1000, 4600]], user: [[3000, 6000]] }).kinds, ['overlap by user']);
  assert.deepEqual(play({ agent: [[1000, 4600]], user: [[3000, 6000]], at: bargeIn(3400) }).kinds, ['interruption by user']);
});

test('one short word can interrupt', () => {
  assert.deepEqual(play({ agent: [[1000, 3700]], user: [[3000, 3600]], at: bargeIn(3400) }).kinds, ['interruption by user']);
});

test('audio that is dropped settles an interruption at once', () => {
  const { turns } = play({ agent: [[1000, 8000]], user: [[3000, 8000]], at: cancelled(3500, 400), untilMs: 3_600 });
  assert.equal(turns.counts.interruption, 1);
});

test('nothing dropped, nothing interrupted', () => {
  assert.deepEqual(play({ agent: [[1000, 9000]], user: [[3000, 5000]], at: cancelled(3500, 0) }).kinds, ['overlap by user']);
});

test('an agent that was stopped before both were heard together was interrupted all the same', () => {
  const { turns, kinds } = play({ agent: [[1000, 3100]], user: [[3000, 5000]], at: cancelled(3300, 400) });
  assert.deepEqual(kinds, ['interruption by user']);
  assert.deepEqual(turns.counts, { overlap: 1, backchannel: 0, interruption: 1 });
});

test('an agent that cuts in and goes on has interrupted the user', () => {
  assert.deepEqual(play({ user: [[1000, 3800]], agent: [[3000, 8000]] }).kinds, ['interruption by agent']);
});

test('two that end together have not interrupted each other', () => {
  assert.deepEqual(play({ user: [[1000, 3000]], agent: [[2200, 3200]] }).kinds, ['overlap by agent']);
});

test('pauses between the sentences of the agent do not count as silence', () => {
  const { kinds } = play({ agent: [[1000, 3400], [3700, 5000], [5300, 9000]], user: [[3000, 3500]] });
  assert.deepEqual(kinds, ['backchannel by user']);
});

test('each remark into one long speech counts', () => {
  const { turns } = play({ agent: [[1000, 11_000]], user: [[2000, 2500], [5000, 5500], [8000, 8500]] });
  assert.deepEqual(turns.counts, { overlap: 3, backchannel: 3, interruption: 0 });
});

test('an overlap is told while it goes on, and named when it is settled', () => {
  const { log } = play({ agent: [[1000, 8000]], user: [[3000, 3600]] });
  assert.deepEqual(log, ['overlap began', 'overlap changed', 'backchannel changed']);
});

test('counts of an earlier page go on', () => {
  const before = { overlap: 4, backchannel: 1, interruption: 2 };
  const turns = new TurnTaking(() => {}, before);
  for (let nowMs = 0; nowMs < 1_000; nowMs += 100) turns.levels({ user: 0, agent: 0.5, nowMs });
  turns.userStarted({ audio_ms: 0 }, 1_000);
  turns.cancelled({ dropped_ms: 200 }, 1_100);
  assert.deepEqual(turns.counts, { overlap: 5, backchannel: 1, interruption: 3 });
  assert.deepEqual(before, { overlap: 4, backchannel: 1, interruption: 2 });
});
