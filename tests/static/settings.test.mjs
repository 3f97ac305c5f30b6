import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Emitter } from '../../static/page/emitter.js';

/** As much of an element as a set-up needs; it counts what is done to what it shows. */
class FakeElement extends EventTarget {
  static writes = 0;
  dataset = {};
  children = [];
  attributes = {};
  classList = { toggle() {} };
  value = '';
  #text = '';

  get textContent() {
    return this.#text;
  }

  set textContent(text) {
    FakeElement.writes += 1;
    this.#text = text;
  }

  get options() {
    return this.children;
  }

  get length() {
    return this.children.length;
  }

  append(...children) {
    this.children.push(...children);
  }

  replaceChildren(...children) {
    FakeElement.writes += 1;
    this.children = children;
  }

  setAttribute(name, value) {
    this.attributes[name] = value;
  }

  querySelectorAll() {
    return [];
  }
}

const GLOBALS = {
  document: { createElement: () => new FakeElement() },
  location: { hash: '', pathname: '/', search: '' },
  history: { state: null, replaceState() {} },
  addEventListener() {},
  Option: class {
    constructor(text, value) {
      Object.assign(this, { text, value });
    }
  },
};
let Settings;
before(async () => {
  for (const [name, value] of Object.entries(GLOBALS)) globalThis[name] = value;
  ({ Settings } = await import('../../static/page/settings.js'));
});
after(() => {
  for (const name of Object.keys(GLOBALS)) delete globalThis[name];
});

const number = { default: 1, min: 0, max: 2 };
const ENGINE = {
  voices: ['Ada', 'Ben'],
  default_voice: 'Ben',
  persona_note: 'It reads every word.',
  sampling: { audio_temperature: number, audio_top_k: number, text_temperature: number, text_top_k: number },
};

function scene(storage = null) {
  const elements = new Proxy({}, { get: (made, name) => (made[name] ??= new FakeElement()) });
  const conversation = Object.assign(new Emitter(), { call: { isActive: false, phase: 'ready' } });
  return { elements, settings: new Settings(elements, storage, conversation, () => {}) };
}

test('what the server offers is shown, and the voice that was chosen stays', () => {
  const { elements, settings } = scene();
  settings.offer({ engine: ENGINE });
  assert.deepEqual(elements.voice.options.map(({ value }) => value), ['Ada', 'Ben']);
  assert.equal(elements.voice.value, 'Ben');
  assert.equal(elements.note.textContent, ENGINE.persona_note);
  elements.voice.value = 'Ada';
  elements.voice.dispatchEvent(new Event('change'));
  settings.offer({ engine: { ...ENGINE, voices: ['Zoe', 'Ada'] } });
  assert.deepEqual(elements.voice.options.map(({ value }) => value), ['Zoe', 'Ada']);
  assert.equal(elements.voice.value, 'Ada');
});

test('a server that offers the same as before changes nothing: a list that is open stays, and nothing is read out again', () => {
  const { elements, settings } = scene();
  const offer = () => settings.offer({ engine: structuredClone(ENGINE), limits: { max_seed: 100 } });
  offer();
  const [row] = elements.numbers.children;
  const [, seed, problem] = row.children;
  seed.value = 'x';
  seed.dispatchEvent(new Event('input'));
  assert.notEqual(problem.textContent, '');
  const [, option] = elements.voice.options;
  FakeElement.writes = 0;
  for (let asked = 0; asked < 3; asked++) offer();
  assert.equal(elements.voice.options[1], option);
  assert.equal(FakeElement.writes, 0);
});

test('an engine that does not sample shows a seed that there is, which it gets, and no more', () => {
  const { elements, settings } = scene();
  settings.offer({ engine: { ...ENGINE, sampling: null } });
  assert.equal(elements.advanced.hidden, true);
  elements.advanced.open = true; // as a link with a seed does
  settings.offer({ engine: { ...ENGINE, sampling: null } });
  const isHidden = () => elements.numbers.children.map(({ hidden }) => hidden ?? false);
  assert.equal(elements.advanced.hidden, false);
  assert.deepEqual(isHidden(), [false, true, true, true, true]);
  elements.numbers.children[0].children[1].value = '7';
  assert.equal(settings.chosen().seed, 7);
  settings.offer({ engine: ENGINE });
  assert.deepEqual(isHidden(), [false, false, false, false, false]);
});

test('a browser that takes no more addresses in a short time does not hinder what is typed from being kept', (t) => {
  const kept = [];
  const { elements } = scene({ getItem: () => null, setItem: (_, text) => kept.push(JSON.parse(text).persona) });
  t.mock.method(history, 'replaceState', () => {
    throw new DOMException('more than 100 times per 10 seconds', 'SecurityError');
  });
  let failures = 0;
  const onFailure = () => (failures += 1);
  process.on('uncaughtException', onFailure);
  elements.persona.value = 'Ada';
  elements.persona.dispatchEvent(new Event('input'));
  return new Promise((resolve) => setImmediate(resolve)).then(() => {
    process.off('uncaughtException', onFailure);
    assert.deepEqual([kept, failures], [['Ada'], 0]);
  });
});
