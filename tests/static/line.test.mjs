import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Line } from '../../static/client/line.js';
import { FakePeer, FakeStream, FakeTrack } from './fakes.mjs';

const LISTENERS = { message() {}, track() {}, state() {}, left() {} };

test('a line that is closed, or closes meanwhile, takes no other track and keeps nobody waiting', async () => {
  class Slow extends FakePeer {
    addTrack() {
      return { replaceTrack: () => (this.closed ? Promise.reject(new DOMException('', 'InvalidStateError')) : new Promise(() => {})) };
    }
  }
  const line = new Line(Slow, [], new FakeStream(), LISTENERS);
  const replaced = line.replaceTrack(new FakeTrack()); // a browser never settles it once the connection is closed
  line.close();
  await replaced;
  await line.replaceTrack(new FakeTrack());
});

test('a track that an open line does not take is told', async () => {
  class Refusing extends FakePeer {
    addTrack() {
      return { replaceTrack: () => Promise.reject(new DOMException('', 'InvalidModificationError')) };
    }
  }
  const line = new Line(Refusing, [], new FakeStream(), LISTENERS);
  await assert.rejects(line.replaceTrack(new FakeTrack()), { name: 'InvalidModificationError' });
});
