import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Emitter } from '../../static/page/emitter.js';
import { VoiceSample } from '../../static/page/voice_sample.js';
import { settle } from './fakes.mjs';

class FakeElement extends EventTarget {
  textContent = '';
  setAttribute() {}
}

function scene() {
  const did = [];
  let answer;
  const api = {
    blob(path) {
      did.push(`ask ${path}`);
      return new Promise((resolve, reject) => (answer = { resolve, reject }));
    },
  };
  const clip = { unlock: () => did.push('unlock'), play: async (sound) => did.push(`play ${sound}`), stop: () => did.push('stop') };
  const [button, label] = [new FakeElement(), new FakeElement()];
  const voice = Object.assign(new FakeElement(), { value: 'Ada' });
  const conversation = Object.assign(new Emitter(), { call: { isActive: false } });
  const shown = [];
  const notices = { show: ({ title }) => shown.push(title) };
  const sample = new VoiceSample({ button, label, voice }, { api, notices, conversation, makeClip: () => clip });
  sample.offer({ voice_samples: { Ada: '/ada', Ben: '/ben' } });
  const press = () => button.dispatchEvent(new Event('click'));
  return { did, press, voice, conversation, shown, answer: () => answer };
}

test('the sound is unlocked in the press itself: the sample has to be fetched, and comes after it', async () => {
  const { did, press, answer } = scene();
  press();
  assert.deepEqual(did, ['unlock', 'ask /ada']);
  answer().resolve('sample');
  await settle();
  assert.equal(did.at(-1), 'play sample');
});

test('a sample that comes too late is not played', async () => {
  for (const happens of [
    ({ press }) => press(),
    ({ conversation }) => (Object.assign(conversation.call, { isActive: true }), conversation.emit('state', 'asking')),
    ({ voice }) => ((voice.value = 'Ben'), voice.dispatchEvent(new Event('change'))),
  ]) {
    const parts = scene();
    parts.press();
    happens(parts);
    parts.answer().resolve('sample');
    await settle();
    assert.equal(parts.did.at(-1), 'stop');
    assert.deepEqual(parts.shown, []);
  }
});

test('of two presses in a row the second one counts', async () => {
  const { did, press, answer } = scene();
  press();
  const first = answer();
  press();
  press();
  first.resolve('old');
  answer().resolve('new');
  await settle();
  assert.deepEqual(did.filter((what) => what.startsWith('play')), ['play new']);
});

test('one that cannot be had is told', async () => {
  const { press, answer, shown, did } = scene();
  press();
  answer().reject(new TypeError('network'));
  await settle();
  assert.equal(shown.length, 1);
  assert.equal(did.at(-1), 'stop');
});
