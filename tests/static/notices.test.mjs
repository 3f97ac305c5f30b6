import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';

import { Emitter } from '../../static/page/emitter.js';
import { Notices } from '../../static/page/notices.js';

class FakeElement extends EventTarget {
  dataset = {};
  children = [];
  focused = 0;

  constructor(name = 'div') {
    super();
    this.name = name;
  }
  hasChildNodes() {
    return this.children.length > 0;
  }
  replaceChildren(...children) {
    this.children = children;
  }
  /** Whoever asks for what has the keyboard finds the button, if there is one. */
  querySelector() {
    return this.children.find(({ name }) => name === 'button') ?? null;
  }
  focus() {
    this.focused += 1;
  }
}

beforeEach(() => (globalThis.document = { createElement: (name) => new FakeElement(name) }));
afterEach(() => delete globalThis.document);

const message = { title: 'A title', text: 'A text.' };
const remedy = { label: 'Press', press() {} };

test('what is about a call goes away with it, what outlives it stays', () => {
  for (const [kind, stays] of [['warning', false], ['sound', false], ['microphone', false], ['error', true], ['server', true], ['redial', true]]) {
    const notices = new Notices(new FakeElement(), () => new FakeElement());
    const conversation = Object.assign(new Emitter(), { call: { isActive: true } });
    notices.follow(conversation);
    notices.show(message, kind);
    conversation.emit('state', 'listening');
    assert.ok(notices.isShown, kind);
    conversation.call.isActive = false;
    conversation.emit('state', 'ended');
    assert.equal(notices.isShown, stays, kind);
  }
});

test('the keyboard goes to the button of the next message, and to its heir where there is none', () => {
  const [box, heir] = [new FakeElement(), new FakeElement()];
  const notices = new Notices(box, () => heir);
  notices.show(message, 'microphone', remedy);
  assert.equal(heir.focused, 0, 'nobody had it');
  notices.show({ ...message, title: 'Another' }, 'microphone', remedy);
  assert.deepEqual([box.children.at(-1).focused, heir.focused], [1, 0]);
  notices.hide('error');
  assert.ok(notices.isShown);
  notices.hide('microphone');
  assert.deepEqual([notices.isShown, heir.focused], [false, 1]);
});
