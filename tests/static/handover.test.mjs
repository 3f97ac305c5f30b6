import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Handover } from '../../static/page/handover.js';

function storage() {
  const items = new Map();
  return {
    items,
    getItem: (key) => items.get(key) ?? null,
    setItem: (key, value) => items.set(key, value),
    removeItem: (key) => items.delete(key),
  };
}

const CALL = { resumption: { token: 't', lastEvent: 7 }, turns: [], durationMs: 12_000, muted: true };

test('a call is handed over once', () => {
  const shelf = storage();
  assert.equal(new Handover(shelf).put(CALL, 1_000_000), true);
  assert.deepEqual(new Handover(shelf).take(1_004_000), { ...CALL, untilMs: 1_010_000 });
  assert.equal(new Handover(shelf).take(1_004_000), null);
});

test('a call that the server has let go is not offered', () => {
  const shelf = storage();
  for (const [ageMs, keptS, isThere] of [[9_900, 10, true], [10_000, 10, false], [50_000, 60, true]]) {
    const handover = new Handover(shelf);
    handover.put(CALL, 1_000_000, keptS);
    assert.equal(handover.take(1_000_000 + ageMs) !== null, isThere);
    assert.equal(shelf.items.size, 0);
  }
});

test('a call that was not taken up goes to the next page, and is kept no longer for it', () => {
  const shelf = storage();
  new Handover(shelf).put(CALL, 1_000_000);
  const left = new Handover(shelf).take(1_004_000);
  new Handover(shelf).put(left, 1_005_000);
  assert.deepEqual(new Handover(shelf).take(1_006_000), left);
  new Handover(shelf).put(left, 1_007_000);
  assert.equal(new Handover(shelf).take(1_010_000), null);
});

test('no call leaves nothing', () => {
  const shelf = storage();
  const handover = new Handover(shelf);
  handover.put(CALL, 0);
  assert.equal(handover.put(null, 0), false);
  assert.equal(shelf.items.size, 0);
  assert.equal(handover.take(0), null);
});

test('a storage that is forbidden, full or holds something else is no trouble', () => {
  const forbidden = { getItem: () => { throw new Error('no'); }, setItem: () => { throw new Error('full'); }, removeItem() {} };
  for (const shelf of [null, forbidden, { ...storage(), getItem: () => '{' }, { ...storage(), getItem: () => '"x"' }]) {
    const handover = new Handover(shelf);
    assert.equal(handover.put(CALL, 0), shelf !== null && shelf !== forbidden);
    assert.equal(handover.take(0), null);
  }
});
