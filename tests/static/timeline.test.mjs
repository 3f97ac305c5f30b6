import assert from 'node:assert/strict';
import { test } from 'node:test';

import { COLUMN_MS, NARROW_PX, SPAN_MS, Timeline, example, excerpt, labels } from '../../static/page/timeline.js';

const LOUD = 0.5;
const moment = (startMs, endMs = null, kind = 'overlap') => ({ id: startMs, kind, by: 'user', startMs, endMs });
const loud = (timeline, side) => timeline.columns().filter((column) => column[side] > 0).map(({ startMs }) => startMs);

test('both voices lie on one axis of time', () => {
  const timeline = new Timeline();
  timeline.levels({ user: LOUD, agent: 0, nowMs: 50_000 });
  timeline.levels({ user: LOUD, agent: LOUD, nowMs: 50_100 });
  timeline.levels({ user: 0, agent: LOUD, nowMs: 50_200 });
  assert.deepEqual(loud(timeline, 'user').slice(-2), [50_000, 50_100]);
  assert.deepEqual(loud(timeline, 'agent'), [50_100, 50_200]);
  assert.equal(timeline.columns().length, SPAN_MS / COLUMN_MS);
});

test('a new one is empty', () => {
  assert.deepEqual(new Timeline().columns(), []);
  assert.ok(new Timeline().isEmpty);
});

test('nothing was heard before the first level', () => {
  const timeline = new Timeline();
  timeline.levels({ user: LOUD, agent: LOUD, nowMs: 90_000 });
  assert.deepEqual(loud(timeline, 'user'), [90_000]);
});

test('a level that is late stands for the columns between, a long gap is silence', () => {
  const timeline = new Timeline();
  timeline.levels({ user: LOUD, agent: 0, nowMs: 1_000 });
  timeline.levels({ user: LOUD, agent: 0, nowMs: 1_250 });
  assert.deepEqual(loud(timeline, 'user'), [1_000, 1_100, 1_200]);
  timeline.levels({ user: LOUD, agent: 0, nowMs: 5_000 });
  assert.deepEqual(loud(timeline, 'user'), [1_000, 1_100, 1_200, 5_000]);
});

test('what is older than half a minute is gone', () => {
  const timeline = new Timeline();
  timeline.levels({ user: LOUD, agent: 0, nowMs: 1_000 });
  timeline.moment(moment(900, 1_000, 'backchannel'), 'began');
  for (let nowMs = 1_100; nowMs < 32_000; nowMs += 100) timeline.levels({ user: 0, agent: 0, nowMs });
  assert.deepEqual(loud(timeline, 'user'), []);
  assert.deepEqual(timeline.marks(), []);
});

test('of two levels in one column the louder is seen', () => {
  const timeline = new Timeline();
  timeline.levels({ user: LOUD, agent: 0, nowMs: 1_010 });
  timeline.levels({ user: 0, agent: 0, nowMs: 1_090 });
  assert.deepEqual(loud(timeline, 'user'), [1_000]);
});

test('columns in which both speak are told', () => {
  const timeline = new Timeline();
  const open = moment(1_150);
  for (let nowMs = 1_000; nowMs < 1_600; nowMs += 100) timeline.levels({ user: LOUD, agent: LOUD, nowMs });
  timeline.moment(open, 'began');
  const both = () => timeline.columns().filter((column) => column.both).map(({ startMs }) => startMs);
  assert.deepEqual(both(), [1_100, 1_200, 1_300, 1_400, 1_500]);
  open.endMs = 1_300;
  assert.deepEqual(both(), [1_100, 1_200]);
  timeline.moment(open, 'removed');
  assert.deepEqual(both(), []);
});

test('plain overlaps are not named, what they turned into is', () => {
  const timeline = new Timeline();
  const kept = moment(1_000, 1_400);
  timeline.moment(kept, 'began');
  assert.deepEqual(timeline.marks(), []);
  kept.kind = 'interruption';
  timeline.moment(kept, 'changed');
  assert.deepEqual(timeline.marks(), [kept]);
});

test('nothing goes on after the end of a call', () => {
  const timeline = new Timeline();
  const open = moment(1_000);
  timeline.moment(open, 'began');
  timeline.end(2_000);
  assert.equal(open.endMs, 2_000);
});

test('the example shows what is special: both at once, a backchannel, an interruption', () => {
  const columns = example().columns();
  assert.ok(columns.some(({ user, agent, both }) => both && user > 0 && agent > 0));
  assert.deepEqual(example().marks().map(({ kind }) => kind), ['backchannel', 'interruption']);
});

const PX_PER_LETTER = 7;
const named = ({ marks, width, toX }) => labels(marks, { width, toX, textWidth: ({ kind }) => kind.length * PX_PER_LETTER });
const at = (startMs, kind, by = 'user') => ({ id: startMs, kind, by, startMs, endMs: startMs + 500 });

test('of what has begun left of the picture nothing is named, so that no other is called by its name', () => {
  const marks = [at(-300, 'backchannel'), at(40, 'interruption')];
  const found = named({ marks, width: 300, toX: (ms) => ms });
  assert.deepEqual(found.map(({ mark, x, textX }) => [mark.kind, x, textX]), [['interruption', 40, 36]]);
  assert.deepEqual(named({ marks: [at(-1, 'backchannel'), at(301, 'backchannel')], width: 300, toX: (ms) => ms }), []);
});

test('where two names of one side would lie over each other, the first is written; the other side has room of its own', () => {
  const marks = [at(10, 'interruption'), at(40, 'backchannel'), at(50, 'interruption', 'agent'), at(150, 'backchannel')];
  const found = named({ marks, width: 300, toX: (ms) => ms });
  assert.deepEqual(found.map(({ textX }) => textX), [6, null, 46, 146]);
});

test('a name at the right edge is written whole', () => {
  const [{ textX }] = named({ marks: [at(295, 'interruption')], width: 300, toX: (ms) => ms });
  assert.equal(textX, 300 - 'interruption'.length * PX_PER_LETTER - 2);
});

test('the example shows both of its names in a picture of any width, each at what it names', () => {
  for (const width of [240, 288, NARROW_PX - 1, NARROW_PX, 700]) {
    const { spanMs, exampleEndMs } = excerpt(width);
    const toX = (ms) => width - ((exampleEndMs - ms) / spanMs) * width;
    const found = named({ marks: example().marks(), width, toX });
    assert.deepEqual(found.map(({ mark }) => mark.kind), ['backchannel', 'interruption'], `${width} px`);
    for (const { x, textX } of found) assert.ok(textX !== null && Math.abs(textX - x) < 5, `${width} px`);
  }
});
