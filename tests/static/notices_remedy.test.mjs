import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';

import { Notices } from '../../static/page/notices.js';

class FakeElement extends EventTarget {
  dataset = {};
  children = [];
  #text = '';

  get textContent() {
    return this.#text + this.children.map(({ textContent }) => textContent).join('');
  }
  set textContent(text) {
    this.#text = text;
  }
  hasChildNodes() {
    return this.children.length > 0;
  }
  replaceChildren(...children) {
    this.children = children;
    this.drawn = (this.drawn ?? 0) + 1;
  }
  append(...children) {
    this.children.push(...children);
  }
  querySelector() {
    return null;
  }
}

beforeEach(() => (globalThis.document = { createElement: () => new FakeElement() }));
afterEach(() => delete globalThis.document);

const message = { title: 'Still no microphone found', text: 'Connect one.' };

test('the same message is not read out again', () => {
  const box = new FakeElement();
  const notices = new Notices(box, () => box);
  for (let times = 0; times < 3; times++) notices.show(message, 'microphone');
  assert.equal(box.drawn, 1);
});

test('whoever presses the button of a message gets an answer, if it is the same message', () => {
  const box = new FakeElement();
  const notices = new Notices(box, () => box);
  let pressed = 0;
  const remedy = { label: 'Use the microphone', press: () => (pressed += 1) };
  notices.show(message, 'microphone', remedy);
  for (const times of [1, 2]) {
    box.children.at(-1).dispatchEvent(new Event('click'));
    notices.show(message, 'microphone', remedy);
    notices.show(message, 'microphone', remedy);
    assert.deepEqual([pressed, box.drawn], [times, 1 + times]);
  }
});

test('it is known of which kind the message is that is shown', () => {
  const notices = new Notices(new FakeElement(), () => new FakeElement());
  assert.equal(notices.kind, '');
  notices.show(message, 'server');
  assert.equal(notices.kind, 'server');
  notices.hide('server');
  assert.equal(notices.kind, '');
});
