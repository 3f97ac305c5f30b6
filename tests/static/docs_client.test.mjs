/** The example of docs/client.md, with another client and another page under it; tests/e2e makes a call with it. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

const DOC = readFileSync(new URL('../../docs/client.md', import.meta.url), 'utf8');
const SCRIPT = /<script type="module">\n\s*import [^\n]*\n(.*?)<\/script>/s.exec(DOC)[1];

function scene() {
  const clients = [];
  class RtcClient extends EventTarget {
    state = 'idle';
    closed = 0;

    constructor() {
      super();
      clients.push(this);
    }

    connect() {
      this.state = 'connecting';
      return new Promise((_, reject) => (this.fail = reject));
    }

    close() {
      this.closed += 1;
      this.state = 'ended';
    }
  }
  const elements = { agent: {}, call: {}, end: {}, words: { textContent: '' } };
  const left = [];
  const page = {
    RtcClient,
    document: { getElementById: (id) => elements[id] },
    navigator: {},
    addEventListener: (type, handle) => type === 'pagehide' && left.push(handle),
  };
  new Function(...Object.keys(page), SCRIPT)(...Object.values(page));
  return { clients, ...elements, leave: () => left.forEach((handle) => handle()) };
}

const isOpen = ({ state }) => state !== 'ended';

test('a second click on Call makes no second call, which nobody could end', () => {
  const { clients, call, end, leave } = scene();
  call.onclick();
  call.onclick();
  assert.equal(clients.length, 1);
  end.onclick();
  assert.deepEqual(clients.filter(isOpen), []);
  leave();
  assert.equal(clients.length, 1);
});

test('after the end of a call, and after one that failed, another can be made', async () => {
  const { clients, call, end, words } = scene();
  call.onclick();
  end.onclick();
  call.onclick();
  clients[1].state = 'ended';
  clients[1].fail(Object.assign(new Error('All lines are in use.'), { hint: 'Later.' }));
  await new Promise((resolve) => setImmediate(resolve));
  assert.match(words.textContent, /All lines are in use\..*Later\./);
  call.onclick();
  assert.deepEqual(clients.map(isOpen), [false, false, true]);
});

test('what failed and what to do about it are two sentences', async () => {
  for (const [hint, said] of [['send Authorization: Bearer', 'the API key is wrong. send Authorization: Bearer'], ['', 'the API key is wrong']]) {
    const { clients, call, words } = scene();
    call.onclick();
    clients[0].fail(Object.assign(new Error('the API key is wrong'), { hint }));
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(words.textContent, said);
  }
});
