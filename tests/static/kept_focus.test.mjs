import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { KeptFocus } from '../../static/page/kept_focus.js';

/** An element of a page. @param {{folded?: object, dialog?: object}} [options] `folded`: the summary that unfolds it; `dialog`: it is in. */
function element({ keyboard = true, folded = null, dialog = null } = {}) {
  return {
    gone: false,
    disabled: false,
    focused: 0,
    checkVisibility() {
      return !this.gone;
    },
    matches(selector) {
      return selector === ':disabled' ? this.disabled : keyboard;
    },
    closest: (selector) => (selector === 'dialog' ? dialog : folded && { querySelector: () => folded }),
    focus() {
      this.focused += 1;
    },
  };
}

let changed;
before(() => {
  globalThis.MutationObserver = class {
    constructor(handle) {
      changed = handle;
    }
    observe() {}
  };
});
after(() => delete globalThis.MutationObserver);

const happens = (page, type, target) => page.dispatchEvent(Object.defineProperty(new Event(type), 'target', { value: target }));

/** The focus is on `had`. */
function scene(had) {
  const heir = element();
  const page = Object.assign(new EventTarget(), { body: element(), activeElement: had });
  new KeptFocus(() => heir, page);
  happens(page, 'focusin', had);
  /** As a browser does that takes the focus at once. */
  const taken = () => {
    happens(page, 'focusout', had);
    page.activeElement = page.body;
  };
  return { heir, page, taken };
}

test('what is hidden or disabled under the keyboard hands it to the heir, in a browser that leaves the focus there and in others', () => {
  for (const change of ['gone', 'disabled']) {
    for (const takes of [true, false]) {
      const had = element();
      const { heir, taken } = scene(had);
      had[change] = true;
      if (takes) taken();
      changed();
      assert.equal(heir.focused, 1, `${change} ${takes}`);
    }
  }
});

test('what is folded away hands it to what unfolds it', () => {
  const summary = element();
  const had = element({ folded: summary });
  const { heir } = scene(had);
  had.gone = true;
  changed();
  assert.deepEqual([summary.focused, heir.focused], [1, 0]);
  summary.gone = true;
  changed();
  assert.equal(heir.focused, 1, 'that is gone too');
});

test('nothing moves while the keyboard has its place, and for a mouse', () => {
  const there = scene(element());
  changed();
  const clicked = element({ keyboard: false });
  const mouse = scene(clicked);
  clicked.gone = true;
  mouse.taken();
  changed();
  assert.deepEqual([there.heir.focused, mouse.heir.focused], [0, 0]);
});

test('what the keyboard has left by itself is nothing to it when it goes away', () => {
  const [left, next] = [element(), element()];
  const tabbed = scene(left);
  happens(tabbed.page, 'focusout', left);
  happens(tabbed.page, 'focusin', next);
  tabbed.page.activeElement = next;
  const other = element();
  const clicked = scene(other);
  clicked.taken();
  left.gone = other.gone = true;
  changed();
  assert.deepEqual([tabbed.heir.focused, clicked.heir.focused], [0, 0]);
});

test('an heir that is gone too is left alone', () => {
  const had = element();
  const { heir } = scene(had);
  had.gone = heir.gone = true;
  changed();
  assert.equal(heir.focused, 0);
});

test('what a dialog takes away with it the dialog gives back: to whoever opened it', () => {
  const had = element({ dialog: {} });
  const { heir } = scene(had);
  had.gone = true;
  changed();
  assert.equal(heir.focused, 0);
});
