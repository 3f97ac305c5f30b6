import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Emitter } from '../../static/page/emitter.js';
import { HeldSound } from '../../static/page/held_sound.js';
import { settle } from './fakes.mjs';

/** A browser that lets a page sound in some events only. */
function scene(allowed) {
  const page = new EventTarget();
  const said = [];
  const notices = { show: (_message, kind) => said.push(`show ${kind}`), hide: (kind) => said.push(`hide ${kind}`) };
  let now = '';
  let tries = 0;
  const conversation = Object.assign(new Emitter(), {
    async resumeSound() {
      tries += 1;
      if (allowed.includes(now)) return true;
      conversation.emit('problem', { code: 'sound_blocked' });
      return false;
    },
  });
  const held = new HeldSound(conversation, notices, page);
  const happens = async (...types) => {
    for (const type of types) {
      now = type;
      page.dispatchEvent(new Event(type));
      now = '';
      await settle();
    }
  };
  return { held, conversation, happens, said, tries: () => tries };
}

for (const [who, allowed, events] of [
  ['a finger', ['pointerup', 'click'], ['pointerdown', 'pointerup', 'click']],
  ['a finger, where the browser wants a click', ['click'], ['pointerdown', 'pointerup', 'click']],
  ['a mouse', ['pointerdown', 'pointerup', 'click'], ['pointerdown', 'pointerup', 'click']],
  ['a key', ['keydown'], ['keydown', 'keyup']],
]) {
  test(`the first press by ${who} lets the agent be heard`, async () => {
    const { conversation, happens, said, tries } = scene(allowed);
    conversation.emit('problem', { code: 'sound_blocked' });
    assert.deepEqual(said, ['show sound']);
    await happens(...events);
    assert.equal(said.at(-1), 'hide sound');
    const before = tries();
    await happens(...events);
    assert.equal(tries(), before, 'what sounds is left alone');
  });
}

test('a key that is no gesture is not the last chance', async () => {
  const { conversation, happens, said } = scene(['click']);
  conversation.emit('problem', { code: 'sound_blocked' });
  await happens('keydown', 'keydown');
  assert.ok(!said.includes('hide sound'));
  await happens('click');
  assert.equal(said.at(-1), 'hide sound');
});

test('a page that is seen again may sound without a gesture; other problems are none of the sound', async () => {
  const { held, conversation, happens, said, tries } = scene(['', 'click']);
  conversation.emit('problem', { code: 'engine_full' });
  assert.deepEqual(said, []);
  conversation.emit('problem', { code: 'sound_blocked' });
  await held.resume();
  assert.equal(said.at(-1), 'hide sound');
  await happens('click');
  assert.equal(tries(), 1);
});
