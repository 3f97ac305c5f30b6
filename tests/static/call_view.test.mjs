import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';

import { CallView } from '../../static/page/call_view.js';
import { Emitter } from '../../static/page/emitter.js';

beforeEach(() => (globalThis.document = { body: { dataset: {}, classList: { toggle() {} } } }));
afterEach(() => delete globalThis.document);

const button = () => Object.assign(new EventTarget(), { dataset: {}, setAttribute() {} });

function scene(t) {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  const pressed = [];
  const call = { phase: 'ready', state: 'ready', isActive: false, durationMs: null };
  const end = () => (pressed.push('end'), (call.isActive = false));
  const start = () => (pressed.push('start'), (call.isActive = true));
  const conversation = Object.assign(new Emitter(), { call, muted: false, end, mute() {} });
  const elements = { status: {}, hint: {}, prefill: {}, call: button(), callLabel: {}, mute: button(), muteLabel: {}, timer: {} };
  new CallView(conversation, elements, { start });
  const click = (detail) => elements.call.dispatchEvent(Object.assign(new Event('click'), { detail }));
  return { pressed, click };
}

test('a double click starts a call and does not end it', (t) => {
  const { pressed, click } = scene(t);
  click(1);
  click(2);
  click(3);
  assert.deepEqual(pressed, ['start']);
});

test('two presses start a call and end it, by mouse as by keyboard', (t) => {
  const { pressed, click } = scene(t);
  for (const detail of [1, 1, 0, 0]) click(detail);
  assert.deepEqual(pressed, ['start', 'end', 'start', 'end']);
});
