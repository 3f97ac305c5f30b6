import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';

import { CallError } from '../../static/client/errors.js';
import { Emitter } from '../../static/page/emitter.js';
import { ServerView } from '../../static/page/server_view.js';

const CONFIG = { engine: { name: 'echo', device: 'cpu', summary: 'A test.' }, slots: { total: 2, free: 2 } };
const unreachable = new CallError('server_unreachable', 'no answer');
const unauthorized = new CallError('unauthorized', 'no key');

afterEach(() => delete globalThis.document);

function scene(t) {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  globalThis.document = Object.assign(new EventTarget(), { visibilityState: 'visible' });
  const conversation = Object.assign(new Emitter(), { call: { phase: 'ready', isActive: false } });
  const parts = { answer: CONFIG, told: [], back: 0, shown: null };
  const notices = {
    get isShown() {
      return parts.shown !== null;
    },
    get kind() {
      return parts.shown ?? '';
    },
    show: (_, kind) => (parts.told.push(kind), (parts.shown = kind)),
    hide: (kind) => (parts.shown = parts.shown === kind ? null : parts.shown),
  };
  const api = {
    async config() {
      if (parts.answer instanceof Error) throw parts.answer;
      return parts.answer;
    },
  };
  const element = () => ({ dataset: {}, textContent: '' });
  const elements = Object.fromEntries(['engine', 'name', 'kind', 'device', 'slots', 'summary'].map((name) => [name, element()]));
  const server = new ServerView({ api, notices, conversation, onConfig() {}, onBack: () => (parts.back += 1) }, elements);
  const passes = async (ms) => {
    for (let passed = 0; passed < ms; passed += 100) {
      t.mock.timers.tick(100);
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const fails = (problem) => {
    conversation.call = { phase: 'failed', isActive: false };
    conversation.emit('state', 'failed');
    conversation.emit('problem', problem);
    notices.show({}, 'server');
  };
  return Object.assign(parts, { server, elements, notices, conversation, passes, fails });
}

test('a call that got no answer turns the badge at once, not when the server is asked the next time', async (t) => {
  const parts = scene(t);
  await parts.server.refresh();
  assert.deepEqual([parts.elements.engine.dataset.health, parts.elements.slots.textContent], ['free', '2 of 2 free']);
  parts.fails(unreachable);
  assert.deepEqual([parts.elements.engine.dataset.health, parts.elements.slots.textContent], ['down', 'no answer']);
});

test('that a server does not answer is said until it does, long enough to be read, and then that it does', async (t) => {
  const parts = scene(t);
  await parts.server.refresh();
  parts.answer = unreachable;
  parts.fails(unreachable);
  await parts.passes(30_000);
  assert.equal(parts.shown, 'server');
  parts.answer = CONFIG;
  await parts.passes(10_000);
  assert.deepEqual([parts.shown, parts.back, parts.elements.engine.dataset.health], [null, 1, 'free']);

  parts.fails(unreachable); // and answers at once
  await parts.passes(3_000);
  assert.equal(parts.shown, 'server', 'nobody could read it');
  await parts.passes(4_000);
  assert.deepEqual([parts.shown, parts.back], [null, 2]);
});

test('a server that refuses is no server without an answer', async (t) => {
  const parts = scene(t);
  parts.answer = unauthorized;
  await parts.server.refresh();
  assert.deepEqual([parts.elements.engine.dataset.health, parts.elements.slots.textContent], ['down', '']);
});

test('what stays wrong is said once', async (t) => {
  const parts = scene(t);
  parts.answer = { ...CONFIG, connectivity: { ok: false, message: 'nobody reaches it', addresses: [] } };
  await parts.server.refresh();
  const hidden = t.mock.method(parts.notices, 'hide');
  await parts.passes(30_000);
  assert.equal(hidden.mock.callCount(), 0);
  parts.answer = CONFIG;
  await parts.passes(10_000);
  assert.deepEqual([parts.shown, parts.back], [null, 0]);
});

test('the badge says what kind of engine speaks, where it is one to try things out', async (t) => {
  const parts = scene(t);
  for (const [name, kind] of [['cascade', 'demo'], ['echo', 'test'], ['personaplex', ''], ['constructor', '']]) {
    parts.answer = { ...CONFIG, engine: { ...CONFIG.engine, name } };
    await parts.server.refresh();
    assert.deepEqual([parts.elements.name.textContent, parts.elements.kind.textContent], [name, kind]);
    assert.equal(parts.elements.name.title, 'A test.');
  }
});

test('what is said of a call that got no answer is not overwritten before it could be read', async (t) => {
  const parts = scene(t);
  parts.answer = { ...CONFIG, connectivity: { ok: false, message: 'nobody reaches it', addresses: [] } };
  parts.fails(unreachable);
  const said = parts.told.length;
  await parts.passes(4_000);
  assert.equal(parts.told.length, said);
  await parts.passes(2_000);
  assert.equal(parts.told.length, said + 1);
});

test('a second call without an answer has its own time to be read', async (t) => {
  const parts = scene(t);
  parts.fails(unreachable);
  await parts.passes(3_000);
  parts.fails(unreachable);
  await parts.passes(4_000);
  assert.equal(parts.shown, 'server', 'the time of the first is over, not that of the second');
  await parts.passes(2_000);
  assert.equal(parts.shown, null);
});
