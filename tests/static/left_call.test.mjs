import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';

import { Emitter } from '../../static/page/emitter.js';
import { LeftCall } from '../../static/page/left_call.js';

const CALL = { resumption: { token: 't', lastEvent: 1 }, turns: [], durationMs: 1, muted: false, untilMs: 1_010_000 };

function scene(call = CALL) {
  const conversation = Object.assign(new Emitter(), { call: { phase: 'ready' } });
  const enter = (phase) => {
    conversation.call.phase = phase;
    conversation.emit('state', phase);
  };
  let gone = 0;
  const left = new LeftCall(conversation, call, { epochMs: 1_000_000, onGone: () => (gone += 1) });
  return { conversation, enter, left, gone: () => gone };
}

beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
afterEach(() => mock.timers.reset());

test('a microphone that is busy, a lost answer and a refusal for now leave the call to be taken up', () => {
  const { conversation, enter, left, gone } = scene();
  for (const code of ['microphone_busy', 'server_unreachable', 'too_many_resumes']) {
    enter('reconnecting');
    enter('failed');
    conversation.emit('problem', { code });
    assert.equal(left.call, CALL, code);
  }
  assert.equal(gone(), 0);
});

test('it is gone when it is live here, when its caller ends it and when the server knows it no more', () => {
  for (const happens of [
    ({ enter }) => enter('live'),
    ({ enter }) => enter('ended'),
    ({ conversation }) => conversation.emit('problem', { code: 'session_not_found' }),
  ]) {
    const parts = scene();
    parts.enter('reconnecting');
    happens(parts);
    assert.deepEqual([parts.left.call, parts.gone()], [null, 1]);
    mock.timers.tick(20_000);
    parts.enter('ended');
    assert.equal(parts.gone(), 1, 'told once, and by no timer in the middle of a call');
  }
});

test('it is gone when the server keeps it no longer', () => {
  const { left, gone } = scene();
  mock.timers.tick(9_999);
  assert.equal(left.call, CALL);
  mock.timers.tick(1);
  assert.deepEqual([left.call, gone()], [null, 1]);
});

test('where no call was left there is nothing to forget', () => {
  const { left, enter, gone } = scene(null);
  enter('live');
  mock.timers.tick(20_000);
  assert.deepEqual([left.call, gone()], [null, 0]);
});
