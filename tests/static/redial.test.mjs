import assert from 'node:assert/strict';
import { mock, test } from 'node:test';

import { Emitter } from '../../static/page/emitter.js';
import { Redial } from '../../static/page/redial.js';

function broken({ refresh = async () => true, free = 1, dial = () => {}, isBusy = () => false } = {}) {
  const conversation = Object.assign(new Emitter(), { call: { phase: 'ready', isActive: false } });
  const enter = (phase, isActive) => {
    conversation.call = { phase, isActive };
    conversation.emit('state', phase);
  };
  const shown = [];
  const hidden = [];
  const notices = {
    show: (message, kind, remedy) => shown.push({ ...message, kind, remedy }),
    hide: (kind) => hidden.push(kind),
  };
  const server = { refresh, config: { slots: { total: 1, free } } };
  let dialled = 0;
  const dialling = () => {
    dialled += 1;
    conversation.emit('client', {});
    dial(enter);
  };
  const redial = new Redial({ conversation, server, notices, dial: dialling, isBusy, clock: Date.now });
  const live = () => {
    conversation.emit('client', {});
    enter('connecting', true);
    enter('live', true);
    enter('ended', false);
  };
  return { redial, shown, hidden, live, enter, server, dialled: () => dialled };
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
  const { redial, shown, hidden, live, enter, dialled } = broken({ refresh: async () => isThere });
  live();
  assert.equal(redial.begin('connection_lost'), true);
  assert.match(shown[0].text, /new call by itself/);
  await passing(t, 10);
  assert.equal(dialled(), 0);
  isThere = true;
  await passing(t, 5);
  assert.equal(dialled(), 1);
  assert.deepEqual([hidden, shown.at(-1).kind], [['redial'], 'redial'], 'there is no new conversation yet');
  enter('live', true);
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

/** A call that was made again, and what becomes of it. */
function refused(ends) {
  const parts = broken({
    dial(enter) {
      enter('asking', true);
      ends(enter);
    },
  });
  parts.live();
  parts.redial.begin('server_stopping');
  return parts;
}

test('a call that is refused for now is made again, for as long as one waits for the server', async (t) => {
  timers(t);
  for (const code of ['engine_full', 'engine_draining', 'server_unreachable', 'bad_answer', 'http_502', 'server_stopping']) {
    let goesOn = true;
    const parts = refused((enter) => {
      enter('failed', false);
      goesOn = parts.redial.failed({ code });
    });
    await passing(t, 20);
    assert.ok(parts.dialled() > 3 && goesOn, code);
    assert.equal(parts.shown.at(-1).kind, 'redial');
    assert.match(parts.shown.at(-1).text, /new call by itself/);
    await passing(t, 100);
    assert.equal(goesOn, false, code);
    const dialled = parts.dialled();
    await passing(t, 30);
    assert.equal(parts.dialled(), dialled);
  }
});

test('an agent that is gone again before it could be talked to is called again, and no longer than the first time', async (t) => {
  timers(t);
  let goesOn = true;
  const parts = refused((enter) => {
    enter('preparing', true);
    enter('ended', false);
    goesOn = parts.redial.begin('engine_failed');
  });
  await passing(t, 20);
  assert.ok(parts.dialled() > 3 && goesOn);
  await passing(t, 100);
  assert.equal(goesOn, false);
});

test('what another attempt cannot mend is told', async (t) => {
  timers(t);
  for (const code of ['microphone_denied', 'unauthorized', 'unknown_voice', 'something_new']) {
    const parts = refused((enter) => {
      enter('failed', false);
      assert.equal(parts.redial.failed({ code }), false);
    });
    await passing(t, 20);
    assert.equal(parts.dialled(), 1, code);
  }
});

test('a call that a person has made is not made again when it is refused', () => {
  const { redial, live, enter } = broken();
  live();
  assert.equal(redial.failed({ code: 'engine_full' }), false);
  enter('asking', true);
  enter('failed', false);
  assert.equal(redial.failed({ code: 'server_unreachable' }), false);
});

test('trouble in the middle of a call that was made again is none of its making', async (t) => {
  timers(t);
  const parts = broken({ dial: (enter) => enter('connecting', true) });
  parts.live();
  parts.redial.begin('connection_lost');
  await passing(t, 3);
  assert.equal(parts.redial.failed({ code: 'sound_blocked' }), false);
  parts.enter('failed', false);
  assert.equal(parts.redial.failed({ code: 'engine_full' }), true);
});

test('nobody is called while busy with what a call takes away, and the page says so', async (t) => {
  timers(t);
  let isBusy = true;
  const parts = broken({ isBusy: () => isBusy });
  parts.live();
  parts.redial.begin('connection_lost');
  await passing(t, 20);
  assert.equal(parts.dialled(), 0);
  assert.match(parts.shown.at(-1).text, /server is back/);
  assert.ok(parts.shown.at(-1).remedy, 'it can still be declined');
  isBusy = false;
  await passing(t, 3);
  assert.equal(parts.dialled(), 1);
});
