import assert from 'node:assert/strict';
import { test } from 'node:test';

import { HeldMute, isHeldPress, meaning } from '../../static/page/keys.js';

function scene(muted = false) {
  const said = [];
  const held = new HeldMute({
    isMuted: () => muted,
    mute: (now) => said.push((muted = now)),
  });
  return { held, said };
}

test('held while open, the key mutes; held while muted, it opens', () => {
  for (const muted of [false, true]) {
    const { held, said } = scene(muted);
    held.hold();
    held.hold(); // it repeats
    held.release();
    held.release();
    assert.deepEqual(said, [!muted, muted]);
  }
});

test('the other key toggles, but not while this one is held', () => {
  const { held, said } = scene();
  held.toggle();
  held.hold();
  held.toggle();
  held.release();
  assert.deepEqual(said, [true, false, true]);
});

test('a call that ends meanwhile leaves the microphone as it was before the key, for the call that is made after it', () => {
  for (const muted of [false, true]) {
    const { held, said } = scene(muted);
    held.hold();
    held.end();
    held.release();
    assert.deepEqual(said, [!muted, muted]);
  }
});

test('a call that ends while its owner is away leaves nobody open', () => {
  const { held, said } = scene();
  held.hold();
  held.leave();
  held.end();
  held.comeBack();
  held.release();
  assert.deepEqual(said, [true]);
});

test('whoever turns away from the page is not to be heard: a held key mutes then, whatever it did', () => {
  const open = scene(false);
  open.held.hold();
  open.held.leave();
  assert.deepEqual(open.said, [true], 'muted until the page is looked at again');
  const muted = scene(true);
  muted.held.hold();
  muted.held.leave();
  muted.held.comeBack();
  assert.deepEqual(muted.said, [false, true]);
});

test('nobody stays muted by a key that came up elsewhere', () => {
  const { held, said } = scene();
  held.hold();
  held.leave();
  held.leave();
  held.comeBack();
  held.comeBack();
  held.release();
  assert.deepEqual(said, [true, false]);
});

test('a key that is still held when its owner is back goes on', () => {
  const { held, said } = scene();
  held.hold();
  held.leave();
  held.hold(); // it repeats
  held.comeBack();
  assert.deepEqual(said, [true]);
  held.release();
  assert.deepEqual(said, [true, false]);
});

test('whoever mutes or opens by another way has the last word', () => {
  const { held, said } = scene();
  held.hold();
  held.changed(true); // its own doing
  held.leave();
  held.changed(false); // the button
  held.comeBack();
  held.release();
  assert.deepEqual(said, [true]);
});

test('a page that comes back without a key held changes nothing', () => {
  for (const muted of [false, true]) {
    const { held, said } = scene(muted);
    held.leave();
    held.comeBack();
    assert.deepEqual(said, []);
  }
});

/** Pressed inside of an element of these kinds. */
const inside = (...kinds) => ({ matches: (selector) => selector.split(', ').some((part) => kinds.includes(part)) });

test('keys mean something else where one types, and Space where one presses', () => {
  const [m, space] = [{ key: 'm' }, { key: ' ' }];
  assert.deepEqual([meaning(m, inside()), meaning(space, inside())], ['toggle', 'hold']);
  assert.equal(meaning({ key: 'M' }, inside('button')), 'toggle');
  for (const kind of ['input', 'textarea', 'select', '[contenteditable]']) {
    assert.deepEqual([meaning(m, inside(kind)), meaning(space, inside(kind))], [null, null]);
  }
  for (const kind of ['button', 'summary', 'a[href]', 'dialog']) assert.equal(meaning(space, inside(kind)), null);
});

test('with another key held down they belong to the browser', () => {
  for (const held of ['ctrlKey', 'metaKey', 'altKey']) {
    assert.equal(meaning({ key: 'm', [held]: true }, inside()), null);
    assert.equal(meaning({ key: ' ', [held]: true }, inside()), null);
  }
  assert.equal(meaning({ key: ' ', shiftKey: true }, inside()), null);
});

test('on a keyboard without an M it is the key in its place', () => {
  assert.equal(meaning({ key: 'ь', code: 'KeyM' }, inside()), 'toggle');
  assert.equal(meaning({ key: ',', code: 'KeyM' }, inside()), null);
});

test('a key that is held presses a button once', () => {
  const held = { key: 'Enter', repeat: true };
  assert.ok(['button', 'summary', 'a[href]'].every((kind) => isHeldPress(held, inside(kind))));
  assert.equal(isHeldPress({ ...held, repeat: false }, inside('button')), false);
  assert.equal(isHeldPress({ key: 'Tab', repeat: true }, inside('button')), false);
  assert.ok(!isHeldPress(held, inside('textarea')), 'lines of a text may be many');
});
