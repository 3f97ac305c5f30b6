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

test('a choice that fails goes back to the one before, which may be away at present', () => {
  const storage = new FakeStorage();
  const devices = new Devices(storage);
  devices.update([BUILT_IN, HEADSET]);
  devices.choose('microphone', 'h1');
  devices.update([BUILT_IN]);
  const before = devices.microphone.wanted;
  devices.choose('microphone', 'b1');
  devices.restore('microphone', before);
  assert.equal(devices.microphone.id, '', 'the default is used as it was');
  assert.deepEqual(new Devices(storage).microphone.wanted, { id: 'h1', label: 'Headset' });
  assert.equal(devices.update([BUILT_IN, HEADSET]).microphone, 'back');
  devices.choose('microphone', 'b1');
  devices.restore('microphone', before);
  assert.equal(devices.microphone.id, 'h1', 'and one that is there is used');
  devices.restore('microphone', null);
  assert.deepEqual([devices.microphone.id, new Devices(storage).microphone.wanted], ['', null]);
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
  ids = [];
  constructor(answer) {
    this.answer = answer;
  }
  async selectAudioOutput(options) {
    this.asked += 1;
    this.ids.push(options?.deviceId);
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
  assert.deepEqual([chosen, media.asked, media.ids], [{ id: 's1', label: 'Box' }, 1, [undefined]]);
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

test('a speaker of an earlier visit is missing until the browser, asked for it by its id, gives and lists it', async () => {
  const storage = new FakeStorage();
  const before = new Devices(storage);
  before.speaker.add({ id: 's1', label: 'Box' });
  before.choose('speaker', 's1');

  const { speaker } = new Devices(storage);
  assert.ok(!speaker.isMissing, 'the browser has not told yet');
  assert.equal(speaker.update([BUILT_IN]), 'none');
  assert.ok(speaker.isMissing);
  assert.deepEqual([speaker.id, speaker.wanted], ['', { id: 's1', label: 'Box' }]);
  const media = new ScriptedMedia({ deviceId: 's7', label: 'Box' }); // under another id now
  const chosen = await askForSpeaker(media, speaker.wanted.id);
  assert.deepEqual(media.ids, ['s1']);
  speaker.add(chosen);
  speaker.choose(chosen.id);
  assert.ok(!speaker.isMissing);
  assert.equal(speaker.update([BUILT_IN, { kind: 'audiooutput', deviceId: 's7', label: 'Box' }]), 'none');
  assert.equal(speaker.id, 's7');
});

test('a speaker that the browser does not give back stays chosen for another time', async () => {
  const devices = new Devices(new FakeStorage());
  devices.speaker.add({ id: 's1', label: 'Box' });
  devices.choose('speaker', 's1');
  devices.update([BUILT_IN]);
  for (const name of ['NotAllowedError', 'InvalidStateError']) {
    assert.equal(typeof (await askForSpeaker(new ScriptedMedia(new DOMException('no', name)), 's1')), 'string');
    assert.ok(devices.speaker.isMissing);
  }
  assert.deepEqual([devices.speaker.id, devices.speaker.wanted], ['', { id: 's1', label: 'Box' }]);
});

test('who has chosen no speaker, or the default, misses none', () => {
  const { speaker } = new Devices(null);
  speaker.update([BUILT_IN]);
  assert.ok(!speaker.isMissing);
  speaker.add({ id: 's1', label: 'Box' });
  speaker.choose('s1');
  speaker.choose('');
  speaker.update([BUILT_IN]);
  assert.ok(!speaker.isMissing);
});

test('other browsers have no such list', async () => {
  for (const media of [undefined, {}]) {
    assert.ok(!canAskForSpeaker(media));
    assert.equal(await askForSpeaker(media), 'failed');
  }
});
