import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isMicrophoneGranted, openMicrophone } from '../../static/client/microphone.js';

const refusing = (name, message = '') => ({
  getUserMedia: () => Promise.reject(Object.assign(new Error(message), { name })),
});

test('the microphone is opened with echo cancellation, noise suppression and gain control', async () => {
  let asked;
  const stream = {};
  const mediaDevices = { getUserMedia: async (constraints) => ((asked = constraints), stream) };
  assert.equal(await openMicrophone({ mediaDevices, isSecure: true }), stream);
  const { echoCancellation, noiseSuppression, autoGainControl } = asked.audio;
  assert.ok(echoCancellation && noiseSuppression && autoGainControl);
  assert.equal('deviceId' in asked.audio, false);
});

test('the chosen microphone is asked for, and the default where it is not there', async () => {
  const given = [];
  const mediaDevices = {
    async getUserMedia({ audio }) {
      given.push(audio.deviceId?.exact ?? 'default');
      assert.equal(audio.echoCancellation, true);
      if (audio.deviceId?.exact === 'pulled out') throw Object.assign(new Error(), { name: 'OverconstrainedError' });
      if (audio.deviceId?.exact === 'busy') throw Object.assign(new Error(), { name: 'NotReadableError' });
    },
  };
  const open = (deviceId) => openMicrophone({ deviceId, mediaDevices, isSecure: true });
  await open('usb');
  await open('pulled out');
  assert.deepEqual(given, ['usb', 'pulled out', 'default']);
  await assert.rejects(open('busy'), { code: 'microphone_busy' });
  assert.equal(given.at(-1), 'busy', 'nobody else’s microphone instead');
});

test('each refusal has a code of its own', async () => {
  const cases = [
    [refusing('NotAllowedError', 'Permission denied'), 'microphone_denied'],
    [refusing('NotAllowedError', 'Permission denied by system'), 'microphone_blocked_by_system'],
    [refusing('SecurityError'), 'microphone_denied'],
    [refusing('NotFoundError'), 'microphone_missing'],
    [refusing('OverconstrainedError'), 'microphone_missing'],
    [refusing('NotReadableError'), 'microphone_busy'],
    [refusing('SomethingNew'), 'microphone_failed'],
    [null, 'microphone_failed'],
  ];
  for (const [mediaDevices, code] of cases) {
    await assert.rejects(openMicrophone({ mediaDevices, isSecure: true }), { name: 'CallError', code });
  }
});

test('an insecure page is told so before anything is asked', async () => {
  await assert.rejects(openMicrophone({ mediaDevices: undefined, isSecure: false }), { code: 'insecure_context' });
});

test('whether the browser gives it without asking', async () => {
  const says = (state) => ({ query: async ({ name }) => ({ state: name === 'microphone' ? state : 'denied' }) });
  assert.equal(await isMicrophoneGranted(says('granted')), true);
  assert.equal(await isMicrophoneGranted(says('prompt')), false);
  assert.equal(await isMicrophoneGranted({ query: () => Promise.reject(new TypeError('no such permission')) }), false);
  assert.equal(await isMicrophoneGranted(undefined), false);
});
