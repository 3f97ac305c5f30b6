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

function scene() {
  const elements = new Proxy({}, { get: (made, name) => (made[name] ??= new FakeElement()) });
  const conversation = Object.assign(new Emitter(), { call: { isActive: false, phase: 'ready' } });
  return { elements, settings: new Settings(elements, null, conversation, () => {}) };
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
