import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Emitter } from '../../static/page/emitter.js';
import { WakeLock } from '../../static/page/wake_lock.js';

const settled = () => new Promise((resolve) => setImmediate(resolve));

function page() {
  const conversation = Object.assign(new Emitter(), { call: { isActive: false } });
  const document = Object.assign(new EventTarget(), { visibilityState: 'visible' });
  const locks = [];
  const wakeLock = {
    refuses: false,
    async request() {
      if (this.refuses) throw new DOMException('low battery', 'NotAllowedError');
      const lock = { released: false, release: async () => (lock.released = true) };
      locks.push(lock);
      return lock;
    },
  };
  new WakeLock(conversation, { wakeLock, page: document });
  const call = async (isActive) => {
    conversation.call = { isActive };
    conversation.emit('state', isActive ? 'live' : 'ended');
    await settled();
  };
  const see = async (visibilityState) => {
    document.visibilityState = visibilityState;
    document.dispatchEvent(new Event('visibilitychange'));
    await settled();
  };
  return { locks, wakeLock, call, see };
}

test('the screen stays awake during a call and sleeps after it', async () => {
  const { locks, call } = page();
  await call(true);
  await call(true);
  assert.equal(locks.length, 1);
  await call(false);
  assert.equal(locks[0].released, true);
});

test('a page that is seen again asks again', async () => {
  const { locks, call, see } = page();
  await call(true);
  locks[0].released = true; // by the browser
  await see('hidden');
  await see('visible');
  assert.equal(locks.length, 2);
});

test('a browser that refuses, or has no lock, changes nothing', async () => {
  const { wakeLock, locks, call } = page();
  wakeLock.refuses = true;
  await call(true);
  await call(false);
  assert.equal(locks.length, 0);
  const conversation = Object.assign(new Emitter(), { call: { isActive: true } });
  new WakeLock(conversation, { wakeLock: undefined, page: new EventTarget() });
  conversation.emit('state', 'live');
});
