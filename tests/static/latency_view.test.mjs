import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Emitter } from '../../static/page/emitter.js';
import { LatencyView } from '../../static/page/latency_view.js';

function scene() {
  const conversation = Object.assign(new Emitter(), { call: { phase: 'ready' } });
  const root = { hidden: true };
  const parts = { children: [], replaceChildren() {} };
  new LatencyView({ root, figure: { textContent: '' }, parts }, conversation);
  const enter = (phase) => {
    conversation.call.phase = phase;
    conversation.emit('state', phase);
  };
  return { conversation, root, enter };
}

test('a call that never was live shows no figure of it, not even after one that had some', () => {
  const { conversation, root, enter } = scene();
  const shown = [];
  for (const after of ['nothing', 'a good call']) {
    conversation.emit('client', {});
    for (const phase of ['asking', 'connecting', 'failed']) {
      enter(phase);
      shown.push(root.hidden);
    }
    assert.deepEqual(shown.splice(0), [true, true, true], after);
    conversation.emit('client', {});
    enter('live');
    conversation.emit('latency', { totalMs: 200, parts: [] });
    enter('ended');
    assert.equal(root.hidden, false, 'what a call had stays in sight');
  }
});

test('a call that ended before there was a figure shows none; one that is going on has a place for it', () => {
  const { conversation, root, enter } = scene();
  for (const phase of ['live', 'reconnecting']) {
    conversation.emit('client', {});
    enter(phase);
    assert.equal(root.hidden, false, phase);
    enter('ended');
    assert.equal(root.hidden, true, phase);
  }
});
