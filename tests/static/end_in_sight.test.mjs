import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';

import { EndInSight } from '../../static/page/end_in_sight.js';

let resized;
beforeEach(() => {
  globalThis.ResizeObserver = class {
    constructor(tell) {
      resized = tell;
    }

    observe() {}
  };
});
afterEach(() => delete globalThis.ResizeObserver);

/** A list as tall as it is told to be, which counts how often it is measured. */
class FakeList extends EventTarget {
  height = 1_000;
  clientWidth = 300;
  clientHeight = 200;
  measured = 0;
  #top = 0;

  get scrollHeight() {
    this.measured += 1;
    return this.height;
  }

  get scrollTop() {
    return this.#top;
  }

  set scrollTop(top) {
    const before = this.#top;
    this.#top = Math.max(0, Math.min(top, this.height - this.clientHeight));
    if (this.#top !== before) this.dispatchEvent(new Event('scroll'));
  }
}

function scene() {
  const list = new FakeList();
  const steps = [];
  const end = new EndInSight(list, (step) => steps.push(step));
  const frame = () => steps.splice(0).forEach((step) => step());
  const grow = (px) => {
    list.height += px;
    end.follow();
  };
  const isAtEnd = () => list.scrollTop === list.height - list.clientHeight;
  return { list, end, frame, grow, isAtEnd };
}

test('what is added is followed once a frame, however much it is', () => {
  const { list, frame, grow, isAtEnd } = scene();
  for (let word = 0; word < 50; word++) grow(20);
  assert.equal(list.measured, 0);
  frame();
  assert.ok(isAtEnd());
  for (let later = 0; later < 10; later++) frame();
  assert.ok(list.measured <= 3, `${list.measured}, and nothing has changed since`);
});

test('who scrolls back stays there, and follows again from the end on', () => {
  const { list, frame, grow, isAtEnd } = scene();
  grow(100);
  for (let still = 0; still < 3; still++) frame();
  list.scrollTop = 300;
  grow(100);
  frame();
  assert.equal(list.scrollTop, 300);
  list.scrollTop = list.height;
  grow(400);
  frame();
  assert.ok(isAtEnd());
});

test('a list that turns out taller when it is drawn than it was taken for is followed to its end', () => {
  const { list, frame, grow, isAtEnd } = scene();
  grow(100);
  for (const taller of [500, 90, 0]) {
    frame();
    list.height += taller;
    list.dispatchEvent(new Event('scroll'));
  }
  frame();
  assert.ok(isAtEnd());
});

test('what leaves at the top while more is added at the end does not count as scrolled back', () => {
  const { list, frame, grow, isAtEnd } = scene();
  grow(100);
  frame();
  grow(600);
  list.scrollTop -= 150; // by the browser, which holds what is in sight
  frame();
  assert.ok(isAtEnd());
});

test('a page that is turned keeps its end, and a new call begins at it', () => {
  const { list, end, frame, grow, isAtEnd } = scene();
  grow(100);
  frame();
  Object.assign(list, { clientWidth: 500, clientHeight: 400 });
  list.scrollTop = 200; // by the browser
  resized();
  assert.ok(isAtEnd());
  list.scrollTop = 0;
  end.restart();
  frame();
  assert.ok(isAtEnd());
});
