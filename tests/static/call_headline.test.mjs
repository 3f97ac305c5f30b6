import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';

import { CallView } from '../../static/page/call_view.js';
import { Emitter } from '../../static/page/emitter.js';

beforeEach(() => (globalThis.document = { body: { dataset: {}, classList: { toggle() {} } } }));
afterEach(() => delete globalThis.document);

const button = () => Object.assign(new EventTarget(), { dataset: {}, setAttribute() {} });

function scene(t) {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  const call = { phase: 'ready', state: 'ready', isActive: false, durationMs: null };
  const conversation = Object.assign(new Emitter(), { call, muted: false, end() {}, mute() {} });
  const elements = { status: {}, hint: {}, prefill: {}, call: button(), callLabel: {}, mute: button(), muteLabel: {}, timer: {} };
  const view = new CallView(conversation, elements, { start() {} });
  const enter = (phase, state = phase) => {
    Object.assign(call, { phase, state, isActive: !['ready', 'ended', 'failed'].includes(phase) });
    conversation.emit('state', state);
  };
  const mute = (muted) => {
    conversation.muted = muted;
    conversation.emit('muted', muted);
  };
  return { view, elements, enter, mute, passes: (ms) => t.mock.timers.tick(ms) };
}

test('a connection that takes its time is said to be tried still', (t) => {
  const { elements, enter, passes } = scene(t);
  enter('connecting');
  const atFirst = elements.hint.textContent;
  passes(3_900);
  assert.equal(elements.hint.textContent, atFirst);
  passes(200);
  assert.match(elements.hint.textContent, /still trying/i);
  enter('preparing');
  assert.doesNotMatch(elements.hint.textContent, /still trying/i);
});

test('what is connected, or given up, in time is not said to be tried still', (t) => {
  const { elements, enter, passes } = scene(t);
  for (const next of ['preparing', 'failed']) {
    enter('connecting');
    passes(1_000);
    enter(next);
    passes(10_000);
    assert.doesNotMatch(elements.hint.textContent, /still trying/i);
  }
});

test('the headline says that one is muted, and what the agent does while it speaks', (t) => {
  const { elements, enter, mute } = scene(t);
  enter('live', 'listening');
  mute(true);
  assert.equal(elements.status.textContent, 'Muted');
  assert.match(elements.hint.textContent, /hears silence/);
  enter('live', 'speaking');
  assert.equal(elements.status.textContent, 'Speaking');
  enter('live', 'listening');
  assert.equal(elements.status.textContent, 'Muted');
  mute(false);
  assert.equal(elements.status.textContent, 'Listening');
});
