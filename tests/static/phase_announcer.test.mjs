import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Emitter } from '../../static/page/emitter.js';
import { PhaseAnnouncer } from '../../static/page/phase_announcer.js';

test('a screen reader is told the phases of a call, and not who speaks in it', () => {
  const read = [];
  const region = {
    set textContent(text) {
      read.push(text);
    },
  };
  const conversation = Object.assign(new Emitter(), { call: { phase: 'ready' }, muted: false });
  new PhaseAnnouncer(conversation, region);
  const enter = (phase, ...states) => {
    conversation.call.phase = phase;
    for (const state of states.length ? states : [phase]) conversation.emit('state', state);
  };
  enter('ready');
  assert.deepEqual(read, []);
  enter('asking');
  enter('connecting');
  enter('live', 'hearing', 'speaking', 'interrupted', 'listening', 'speaking');
  enter('reconnecting');
  enter('live', 'speaking', 'listening');
  enter('ended');
  assert.deepEqual(read, ['May I listen?', 'Connecting', 'Listening', 'Reconnecting', 'Listening', 'Call ended']);
});
