import assert from 'node:assert/strict';
import { mock, test } from 'node:test';

import { Emitter } from '../../static/page/emitter.js';
import { Redial } from '../../static/page/redial.js';

function broken({ refresh = async () => true, free = 1 } = {}) {
  const conversation = Object.assign(new Emitter(), { call: { phase: 'ready', isActive: false } });
  const enter = (phase, isActive) => {
    conversation.call = { phase, isActive };
    conversation.emit('state', phase);
  };
  const shown = [];
  const notices = { show: (message, kind, remedy) => shown.push({ ...message, kind, remedy }), hide() {} };
  const server = { refresh, config: { slots: { total: 1, free } } };
  let dialled = 0;
  const redial = new Redial({ conversation, server, notices, dial: () => (dialled += 1), clock: Date.now });
  const live = () => {
    conversation.emit('client', {});
    enter('connecting', true);
    enter('live', true);
    enter('ended', false);
  };
  return { redial, shown, live, enter, server, dialled: () => dialled };
}

async function passing(t, seconds) {
  for (let elapsed = 0; elapsed < seconds; elapsed++) {
    t.mock.timers.tick(1000);
    await Promise.resolve().then(() => {});
    await new Promise((resolve) => setImmediate(resolve));
  }
}

const timers = (t) => t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });

test('a call that broke is made again when the server answers', async (t) => {
  timers(t);
  let isThere = false;
  const { redial, shown, live, dialled } = broken({ refresh: async () => isThere });
  live();
  assert.equal(redial.begin('connection_lost'), true);
  assert.match(shown[0].text, /new call by itself/);
  await passing(t, 10);
  assert.equal(dialled(), 0);
  isThere = true;
  await passing(t, 5);
  assert.equal(dialled(), 1);
  assert.match(shown.at(-1).text, /new conversation/);
  await passing(t, 60);
  assert.equal(dialled(), 1);
});

test('a full server is waited for, and after a while nobody calls any more', async (t) => {
  timers(t);
  const { redial, shown, live, dialled } = broken({ free: 0 });
  live();
  redial.begin('server_stopping');
  await passing(t, 200);
  assert.equal(dialled(), 0);
  assert.equal(shown.at(-1).kind, 'error');
  assert.equal(shown.at(-1).remedy, undefined);
});

test('who does not want it, or is quicker, is not called', async (t) => {
  timers(t);
  const unwanted = broken();
  unwanted.live();
  unwanted.redial.begin('connection_lost');
  unwanted.shown[0].remedy.press();
  const quicker = broken();
  quicker.live();
  quicker.redial.begin('connection_lost');
  quicker.enter('asking', true);
  await passing(t, 20);
  assert.equal(unwanted.dialled() + quicker.dialled(), 0);
});

test('an end that somebody wanted, and a call that never came to be, are left alone', () => {
  const { redial, live } = broken();
  assert.equal(redial.begin('connection_lost'), false);
  live();
  for (const reason of ['closed', 'idle', 'replaced', 'time_limit']) assert.equal(redial.begin(reason), false, reason);
  mock.reset();
});
