import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Inbox } from '../../static/client/inbox.js';

const delta = (seq) => ({ type: 'response.delta', seq });
const numbers = (events) => events.map(({ seq }) => seq);
const read = (inbox, events, urgent) => numbers(inbox.read(JSON.stringify(events), urgent));

test('a message is one event or several', () => {
  const inbox = new Inbox();
  assert.deepEqual(read(inbox, delta(1)), [1]);
  assert.deepEqual(read(inbox, [delta(2), delta(3)]), [2, 3]);
  assert.equal(inbox.last, 3);
});

test('what was seen is left out, also when events between were dropped', () => {
  const inbox = new Inbox(10);
  assert.deepEqual(read(inbox, [delta(9), delta(10), delta(14)]), [14]);
  assert.deepEqual(read(inbox, [delta(11), delta(15)]), [15]);
});

test('an urgent event overtakes, and is not told again', () => {
  const inbox = new Inbox();
  assert.deepEqual(read(inbox, delta(3), true), [3]);
  assert.deepEqual(read(inbox, delta(3), true), []);
  assert.equal(inbox.last, 0);
  assert.deepEqual(read(inbox, [delta(1), delta(2), delta(3), delta(4)]), [1, 2, 4]);
  assert.deepEqual(read(inbox, delta(2), true), []);
});

test('each connection begins with session.created, which hides nothing that is replayed after it', () => {
  const inbox = new Inbox();
  const created = { type: 'session.created', seq: 1 };
  assert.deepEqual(read(inbox, [created, delta(2), delta(3)]), [1, 2, 3]);
  assert.deepEqual(read(inbox, [created, delta(3), delta(4)]), [1, 4]);
  assert.deepEqual(read(inbox, [{ ...created, seq: 9 }, delta(5), delta(6)]), [9, 5, 6]);
});

test('a server that gives no numbers is heard all the same', () => {
  assert.equal(new Inbox(5).read('{"type":"x"}').length, 1);
});

test('a thousand urgent events that never come in order are not all remembered', () => {
  const inbox = new Inbox();
  for (let seq = 1; seq <= 1_000; seq++) read(inbox, delta(seq), true);
  assert.deepEqual(read(inbox, delta(1), true), [1]); // forgotten long ago: told twice rather than kept for ever
  assert.deepEqual(read(inbox, delta(1_000), true), []);
});
