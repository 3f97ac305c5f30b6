import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';

import { Clip } from '../../static/page/clip.js';

class FakeAudio extends EventTarget {
  src = '';
  sinkId = '';
  did = [];
  missing = [];

  async play() {
    this.did.push(this.src ? `play ${this.src} over ${this.sinkId || 'default'}` : 'play nothing');
    if (!this.src) throw new DOMException('no source', 'NotSupportedError');
  }

  pause() {
    this.did.push('pause');
  }

  load() {
    this.did.push('load');
  }

  removeAttribute(name) {
    this[name] = '';
  }

  async setSinkId(id) {
    if (this.missing.includes(id)) throw new DOMException('gone', 'NotFoundError');
    this.sinkId = id;
  }
}

let revoked;
beforeEach(() => {
  revoked = [];
  let made = 0;
  mock.method(URL, 'createObjectURL', () => `blob:${++made}`);
  mock.method(URL, 'revokeObjectURL', (url) => revoked.push(url));
});
afterEach(() => mock.restoreAll());

function scene(options = {}) {
  const audio = new FakeAudio();
  const parts = { speaker: '' };
  const clip = new Clip({ audio, speaker: () => parts.speaker, ...options });
  const played = () => audio.did.filter((what) => what.startsWith('play '));
  return { audio, parts, clip, played };
}

test('it sounds over the speaker that is chosen then, and over the default again when that is', async () => {
  const { clip, parts, played } = scene();
  for (parts.speaker of ['headset', '']) await clip.play(new Blob());
  assert.deepEqual(played(), ['play blob:1 over headset', 'play blob:2 over default']);
  assert.deepEqual(revoked, ['blob:1']);
});

test('where the chosen speaker is gone the default sounds, and so where speakers cannot be chosen', async () => {
  const { clip, parts, audio, played } = scene();
  parts.speaker = 'headset';
  await clip.play(new Blob());
  Object.assign(audio, { missing: ['usb'] });
  parts.speaker = 'usb';
  await clip.play(new Blob());
  assert.deepEqual(played(), ['play blob:1 over headset', 'play blob:2 over default']);
});

test('it is unlocked in the gesture, without a sound of before', async () => {
  const { clip, played } = scene();
  await clip.play(new Blob());
  clip.stop();
  clip.unlock();
  assert.equal(played().at(-1), 'play nothing');
});

test('what is stopped while the speaker is being changed does not sound', async () => {
  const { clip, parts, played } = scene();
  parts.speaker = 'headset';
  const done = clip.play(new Blob());
  clip.stop();
  await done;
  assert.deepEqual(played(), []);
  assert.deepEqual(revoked, ['blob:1']);
});

test('its end is told', async () => {
  let ends = 0;
  const { clip, audio } = scene({ onEnd: () => (ends += 1) });
  await clip.play(new Blob());
  audio.dispatchEvent(new Event('ended'));
  assert.equal(ends, 1);
});
