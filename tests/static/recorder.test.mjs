import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Recorder } from '../../static/page/recorder.js';

class FakeContext {
  static last = null;
  state = 'suspended';
  asked = 0;
  /** Whether the system lets it run. */
  mayRun = true;
  constructor() {
    FakeContext.last = this;
  }
  createChannelMerger() {
    return { connect() {} };
  }
  createMediaStreamDestination() {
    return { stream: {} };
  }
  async resume() {
    this.asked += 1;
    if (!this.mayRun) throw new DOMException('not now', 'InvalidStateError');
    this.state = 'running';
  }
}

class FakeRecorder extends EventTarget {
  static isTypeSupported = () => true;
  start() {}
}

before(() => Object.assign(globalThis, { AudioContext: FakeContext, MediaRecorder: FakeRecorder }));
after(() => {
  delete globalThis.AudioContext;
  delete globalThis.MediaRecorder;
});

test('a recorder that the system has suspended goes on as soon as it may', async () => {
  const recorder = new Recorder();
  const context = FakeContext.last;
  const hear = () => recorder.hear({ you: null, agent: null });
  hear();
  assert.equal(context.asked, 1, 'it runs: nothing to be asked for');
  Object.assign(context, { state: 'interrupted', mayRun: false }); // a phone call, on iOS
  hear();
  hear();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([context.asked, context.state], [3, 'interrupted']);
  context.mayRun = true;
  hear();
  assert.equal(context.state, 'running');
});
