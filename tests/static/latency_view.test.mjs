import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Emitter } from '../../static/page/emitter.js';
import { LatencyView } from '../../static/page/latency_view.js';

function scene() {
  const conversation = Object.assign(new Emitter(), { call: { phase: 'ready' } });
  const root = { hidden: true };
  const [name, figure] = [{ textContent: '' }, { textContent: '' }];
  const parts = { children: [], replaceChildren() {} };
  new LatencyView({ root, name, figure, parts }, conversation);
  const enter = (phase) => {
    conversation.call.phase = phase;
    conversation.emit('state', phase);
  };
  return { conversation, enter, shown: () => (root.hidden ? null : `${name.textContent} ${figure.textContent}`.trim()) };
}

test('a call that never was live shows no figure, not even after one that had some, and can be described', () => {
  const { conversation, enter, shown } = scene();
  for (const after of ['nothing', 'a good call']) {
    conversation.emit('client', {});
    const seen = ['asking', 'connecting', 'failed'].map((phase) => (enter(phase), shown()));
    assert.deepEqual(seen, [null, null, 'Diagnostics'], after);
    conversation.emit('client', {});
    enter('live');
    conversation.emit('latency', { totalMs: 200, parts: [] });
    enter('ended');
    assert.equal(shown(), 'Mouth to ear 200 ms', 'what a call had stays in sight');
  }
});

test('a call that ended before there was a figure shows none; one that is going on has a place for it', () => {
  const { conversation, enter, shown } = scene();
  for (const phase of ['live', 'reconnecting']) {
    conversation.emit('client', {});
    enter(phase);
    assert.equal(shown(), 'Mouth to ear –', phase);
    enter('ended');
    assert.equal(shown(), 'Diagnostics', phase);
  }
});
