import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Handover } from '../../static/page/handover.js';
import { Leaving } from '../../static/page/leaving.js';

const CALL = { resumption: { token: 't', lastEvent: 7 }, turns: [], durationMs: 12_000, muted: false };

/** A page with a call that can be handed over, or not yet, before a tab's storage. */
function scene({ handOver = CALL, left = null, isForbidden = false } = {}) {
  const items = new Map();
  const shelf = {
    getItem: (key) => items.get(key) ?? null,
    setItem(key, value) {
      if (isForbidden) throw new DOMException('no', 'SecurityError');
      items.set(key, value);
    },
    removeItem: (key) => items.delete(key),
  };
  const ended = [];
  const parts = { left: { call: left }, handOver };
  const conversation = { handOver: () => parts.handOver, end: (options) => ended.push(options) };
  const around = { window: new EventTarget(), document: Object.assign(new EventTarget(), { visibilityState: 'visible' }) };
  const epochMs = () => 1_000_000;
  new Leaving({ conversation, handover: new Handover(shelf), left: parts.left, keptS: () => 60, epochMs }, around);
  return {
    ended,
    forget() {
      parts.left.call = parts.handOver = null;
    },
    window: (type, fields = {}) => around.window.dispatchEvent(Object.assign(new Event(type), fields)),
    see(visibilityState) {
      around.document.visibilityState = visibilityState;
      around.document.dispatchEvent(new Event('visibilitychange'));
    },
    kept: () => JSON.parse([...items.values()][0] ?? 'null'),
  };
}

test('a call lies in the tab only while nobody sees its page, for as long as the server keeps it', () => {
  const { see, window, kept, ended } = scene();
  see('hidden');
  assert.deepEqual(kept(), { ...CALL, untilMs: 1_060_000 });
  see('visible');
  assert.equal(kept(), null);
  window('pagehide');
  assert.deepEqual(kept().resumption, CALL.resumption);
  window('pageshow', { persisted: true });
  assert.equal(kept(), null);
  assert.deepEqual(ended, []);
});

test('a call that nobody can go on with, since it has not begun or nothing keeps it, ends with its page', () => {
  for (const parts of [{ handOver: null }, { isForbidden: true }]) {
    const { see, window, kept, ended } = scene(parts);
    see('hidden');
    assert.deepEqual(ended, [], 'a page that is only hidden may be seen again');
    window('pagehide');
    assert.deepEqual(ended, [{ atOnce: true }]);
    assert.equal(kept(), null);
  }
});

test('a call of the page before that was not taken up goes to the page after', () => {
  const left = { ...CALL, untilMs: 1_005_000 };
  const { window, kept } = scene({ handOver: null, left });
  window('pagehide');
  assert.deepEqual(kept(), left);
});

test('a reload while a call is being taken up leaves it to the page after, for the time that is left', () => {
  const left = { ...CALL, untilMs: 1_005_000 };
  const fresher = { ...CALL, resumption: { token: 't', lastEvent: 9 } };
  const { window, see, kept, ended, forget } = scene({ handOver: fresher, left });
  window('pagehide');
  forget(); // the client is closed with the page
  see('hidden');
  assert.deepEqual(kept(), { ...fresher, untilMs: left.untilMs });
  assert.deepEqual(ended, []);
});

test('a page that comes back is hidden and seen as before', () => {
  const { window, see, kept } = scene();
  window('pagehide');
  window('pageshow', { persisted: true });
  see('hidden');
  assert.notEqual(kept(), null);
});
