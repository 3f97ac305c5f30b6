import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as messages from '../../static/page/messages.js';

test('a full server says how many lines there are and when to come back', () => {
  const full = { code: 'engine_full', retryAfterS: 5 };
  assert.match(messages.trouble(full, { total: 4 }).text, /All 4 lines are in use\. Try again in 5 seconds\./);
  assert.match(messages.trouble(full, { total: 1 }).text, /The agent is in another call/);
  assert.match(messages.trouble({ code: 'engine_full' }).text, /Try again in a moment/);
});

test('each trouble that a caller can meet says what happened and what to do', () => {
  const codes = [
    'insecure_context', 'no_webrtc', 'microphone_denied', 'microphone_blocked_by_system', 'microphone_missing',
    'microphone_busy', 'microphone_failed', 'session_not_found', 'too_many_resumes', 'sound_blocked', 'not_recorded',
    'server_unreachable', 'unauthorized', 'forbidden_origin', 'engine_draining', 'engine_unavailable', 'too_many_half_open', 'ice_failed', 'dtls_failed',
    'unknown_voice', 'bad_answer',
  ];
  const titles = codes.map((code) => messages.trouble({ code }).title);
  assert.equal(new Set(titles).size, codes.length);
  for (const code of codes) assert.ok(messages.trouble({ code }).text.length > 20, code);
});

test('an unknown trouble repeats what the server said', () => {
  const { text } = messages.trouble({ code: 'odd', message: 'the moon is full', hint: 'wait for the new moon' });
  assert.equal(text, 'The moon is full. Wait for the new moon.');
  for (const [message, hint, said] of [
    ['persona has 5000 characters', 'at most 4000 are possible', 'Persona has 5000 characters. At most 4000 are possible.'],
    ['is it so?', 'it is!', 'Is it so? It is!'],
    ['done.', '', 'Done.'],
    ['', 'look', 'Look.'],
  ]) {
    assert.equal(messages.trouble({ code: 'odd', message, hint }).text, said);
  }
  assert.ok(messages.trouble({}).text);
  assert.ok(messages.trouble({ code: 'constructor' }).text);
});

test('a microphone that was taken from a call says what the agent hears and how it comes back', () => {
  const all = [['interrupted', ''], ['lost', ''], ['lost', 'microphone_denied'], ['lost', 'microphone_missing']];
  for (const [state, code] of all) {
    const { title, text } = messages.withoutMicrophone(state, code);
    assert.match(title, /microphone/i);
    assert.match(text, /hears silence.* button/);
  }
  assert.match(messages.withoutMicrophone('lost', 'microphone_denied').text, /Allow/);
});

test('only ends that somebody wanted are expected', () => {
  for (const reason of ['closed', 'client_closed', 'idle']) assert.equal(messages.farewell(reason).expected, true, reason);
  for (const reason of ['connection_lost', 'server_stopping', 'engine_lost', 'engine_failed', 'peer_silent', 'replaced']) {
    assert.equal(messages.farewell(reason).expected, false, reason);
  }
});

test('an unknown reason is told as it is', () => {
  assert.match(messages.farewell('solar_flare').text, /solar flare/);
  assert.match(messages.farewell('toString').text, /toString/);
});

test('figures read like words', () => {
  assert.equal(messages.clock(65_400), '1:05');
  assert.equal(messages.spokeFor(2_400), 'spoke for 2.4 s');
  assert.equal(messages.slotsFree({ total: 4, free: 3 }), '3 of 4 free');
  assert.equal(messages.slotsFree({ total: 1, free: 0 }), 'in a call');
  assert.match(messages.preparing({ done: 1, total: 4 }), /25 %/);
  assert.match(messages.preparing({ done: 0, total: 0 }), /0 %/);
  assert.equal(messages.deviceName('cpu'), 'CPU');
  assert.equal(messages.deviceName('NVIDIA H200'), 'NVIDIA H200');
});

test('a microphone that was asked for in vain is told with why, so that whoever pressed the button sees an answer', () => {
  const codes = ['microphone_missing', 'microphone_busy', 'microphone_denied', 'microphone_blocked_by_system', 'microphone_failed'];
  const titles = codes.map((code) => {
    const byItself = messages.withoutMicrophone('lost', code);
    const asked = messages.withoutMicrophone('lost', code, true);
    assert.notEqual(asked.title, byItself.title);
    assert.match(asked.title, /still/i);
    assert.match(asked.text, /hears silence.* button/);
    return asked.title;
  });
  assert.equal(titles[0], 'Still no microphone found');
  assert.equal(new Set(titles).size, codes.length);
  assert.match(messages.withoutMicrophone('lost', 'microphone_busy').text, /Another program/);
  assert.match(messages.withoutMicrophone('lost', 'solar_flare', true).title, /still/i);
});

test('who is muted is not told that the agent listens', () => {
  for (const state of ['listening', 'hearing']) {
    assert.equal(messages.doing(state, { isMuted: true }).title, 'Muted');
    assert.notEqual(messages.doing(state).title, 'Muted');
  }
  assert.equal(messages.doing('speaking', { isMuted: true }).title, 'Speaking');
  assert.equal(messages.doing('ready', { canContinue: true }).title, 'Where were we?');
});

test('what is said of a server that does not answer goes away when it does', () => {
  for (const code of ['server_unreachable', 'bad_answer', 'http_502']) assert.equal(messages.kindOf({ code }), 'server');
  for (const code of ['engine_full', 'microphone_denied', 'http_400', undefined]) assert.equal(messages.kindOf({ code }), 'error');
});
