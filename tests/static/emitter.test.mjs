import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Emitter } from '../../static/page/emitter.js';

test('who wants to know is told, in order', () => {
  const emitter = new Emitter();
  const heard = [];
  emitter.on('word', (text, count) => heard.push(`first ${text} ${count}`));
  emitter.on('word', (text) => heard.push(`second ${text}`));
  emitter.emit('word', 'hello', 2);
  emitter.emit('word', 'again', 1);
  emitter.emit('nobody listens');
  assert.deepEqual(heard, ['first hello 2', 'second hello', 'first again 1', 'second again']);
});
