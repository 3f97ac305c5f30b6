import assert from 'node:assert/strict';
import { test } from 'node:test';

import { askForSpeaker, canAskForSpeaker, Choice, Devices } from '../../static/page/devices.js';

const microphone = (deviceId, label) => ({ kind: 'audioinput', deviceId, label });
const speaker = (deviceId, label) => ({ kind: 'audiooutput', deviceId, label });
const BUILT_IN = microphone('b1', 'Built-in');
const HEADSET = microphone('h1', 'Headset');

class FakeStorage {
  items = {};
  getItem(key) {
    return this.items[key] ?? null;
  }
  setItem(key, value) {
    this.items[key] = value;
  }
}

test('what the system uses by default is no device of its own', () => {
  const choice = new Choice('audioinput');
  choice.update([microphone('default', 'Default - Built-in'), BUILT_IN, speaker('s1', 'Box')]);
  assert.deepEqual(choice.devices, [{ id: 'b1', label: 'Built-in' }]);
  assert.equal(choice.defaultLabel, 'Default - Built-in');
  assert.equal(choice.id, '');
});

test('a chosen device that is pulled out gives way to the default, and is used again when it is back', () => {
  const choice = new Choice('audioinput');
  choice.update([BUILT_IN, HEADSET]);
  choice.choose('h1');
  assert.equal(choice.id, 'h1');
  assert.equal(choice.update([BUILT_IN]), 'gone');
  assert.equal(choice.id, '');
  assert.equal(choice.update([BUILT_IN]), 'none');
  assert.equal(choice.update([HEADSET, BUILT_IN]), 'back');
  assert.equal(choice.id, 'h1');
});

test('whoever chooses the default, or another one meanwhile, keeps it', () => {
  const choice = new Choice('audioinput');
  choice.update([BUILT_IN, HEADSET]);
  choice.choose('h1');
  choice.update([BUILT_IN]);
  choice.choose('b1');
  assert.equal(choice.update([BUILT_IN, HEADSET]), 'none');
  assert.equal(choice.id, 'b1');
  choice.choose('');
  assert.equal(choice.update([HEADSET]), 'none');
  assert.equal(choice.id, '');
});

test('a device whose id the browser forgot is found by its name', () => {
  const choice = new Choice('audioinput', { id: 'old', label: 'Headset' });
  assert.equal(choice.id, 'old', 'the browser has not told yet');
  assert.equal(choice.update([BUILT_IN, HEADSET]), 'none');
  assert.equal(choice.id, 'h1');
});

test('of two with one name, the one with the id', () => {
  const choice = new Choice('audioinput', { id: 'h2', label: 'Headset' });
  choice.update([HEADSET, microphone('h2', 'Headset')]);
  assert.equal(choice.id, 'h2');
});

test('before the microphone is allowed nothing is known, and nothing is lost', () => {
  const choice = new Choice('audioinput', { id: 'h1', label: 'Headset' });
  assert.equal(choice.update([microphone('', '')]), 'none');
  assert.ok(choice.isSecret && !choice.isKnown);
  assert.equal(choice.id, 'h1');
  assert.equal(choice.update([BUILT_IN]), 'none', 'nobody is told of a headset that was not there at the start');
  assert.ok(!choice.isSecret && choice.isKnown);
  assert.equal(choice.id, '');
  assert.equal(choice.update([BUILT_IN, HEADSET]), 'back');
});

test('a machine without microphones keeps no secret', () => {
  const choice = new Choice('audioinput');
  choice.update([speaker('', '')]);
  assert.ok(!choice.isSecret && !choice.isKnown);
});

test('the choice is kept for the next visit, ids brought up to date', () => {
  const storage = new FakeStorage();
  const first = new Devices(storage);
  first.update([BUILT_IN, HEADSET, speaker('s1', 'Box')]);
  first.choose('microphone', 'h1');
  first.choose('speaker', 's1');
  const second = new Devices(storage);
  assert.deepEqual([second.microphone.id, second.speaker.id], ['h1', 's1']);
  second.update([microphone('h9', 'Headset'), speaker('s1', 'Box')]);
  assert.deepEqual(new Devices(storage).microphone.wanted, { id: 'h9', label: 'Headset' });
});

test('a storage with rubbish, a full one and none at all do no harm', () => {
  for (const kept of ['{', 'null', '7', '{"microphone":7,"speaker":{"id":""}}', '[]']) {
    const devices = new Devices({ getItem: () => kept, setItem() {} });
    assert.deepEqual([devices.microphone.wanted, devices.speaker.wanted], [null, null]);
  }
  const full = () => {
    throw new Error('full');
  };
  for (const storage of [null, { getItem: () => null, setItem: full }]) {
    const devices = new Devices(storage);
    devices.update([BUILT_IN]);
    devices.choose('microphone', 'b1');
    assert.equal(devices.microphone.id, 'b1');
  }
});

/** A browser with a list of speakers of its own. */
class ScriptedMedia {
  asked = 0;
  constructor(answer) {
    this.answer = answer;
  }
  async selectAudioOutput() {
    this.asked += 1;
    if (this.answer instanceof Error) throw this.answer;
    return this.answer;
  }
}

test('a speaker of the browser’s own list is used, listed at once, and found again among those it lists later', async () => {
  const media = new ScriptedMedia({ kind: 'audiooutput', deviceId: 's1', label: 'Box', groupId: 'g' });
  assert.ok(canAskForSpeaker(media));
  const storage = new FakeStorage();
  const devices = new Devices(storage);
  devices.update([BUILT_IN]);
  const chosen = await askForSpeaker(media);
  assert.deepEqual([chosen, media.asked], [{ id: 's1', label: 'Box' }, 1]);
  devices.speaker.add(chosen);
  devices.speaker.add(chosen);
  devices.choose('speaker', 's1');
  assert.deepEqual([devices.speaker.id, devices.speaker.devices], ['s1', [{ id: 's1', label: 'Box' }]]);
  assert.equal(devices.update([BUILT_IN, speaker('s1', 'Box')]).speaker, 'none');
  assert.equal(devices.speaker.id, 's1');
  assert.deepEqual(new Devices(storage).speaker.wanted, { id: 's1', label: 'Box' });
});

test('the default of that list is the default', async () => {
  const devices = new Devices(null);
  const chosen = await askForSpeaker(new ScriptedMedia({ deviceId: '', label: 'Default' }));
  devices.speaker.add(chosen);
  devices.choose('speaker', chosen.id);
  assert.deepEqual([devices.speaker.id, devices.speaker.wanted, devices.speaker.devices], ['', null, []]);
});

test('whoever closes the list, or whose browser finds nothing or forbids it, is told which', async () => {
  const refusals = { NotAllowedError: 'declined', NotFoundError: 'missing', InvalidStateError: 'failed', TypeError: 'failed' };
  for (const [name, problem] of Object.entries(refusals)) {
    const error = name === 'TypeError' ? new TypeError('no gesture') : new DOMException('no', name);
    assert.equal(await askForSpeaker(new ScriptedMedia(error)), problem, name);
  }
});

test('other browsers have no such list', async () => {
  for (const media of [undefined, {}]) {
    assert.ok(!canAskForSpeaker(media));
    assert.equal(await askForSpeaker(media), 'failed');
  }
});
