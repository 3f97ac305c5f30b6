import assert from 'node:assert/strict';
import { test } from 'node:test';

import { emptySetup, numberIn, readAddress, request, writeAddress } from '../../static/page/setup.js';

const RANGES = {
  seed: { min: 0, max: 100, whole: true },
  sampling: {
    audio_temperature: { min: 0, max: 2, whole: false },
    audio_top_k: { min: 1, max: 500, whole: true },
    text_temperature: { min: 0, max: 2, whole: false },
    text_top_k: { min: 1, max: 500, whole: true },
  },
};
const setup = (changes = {}, sampling = {}) => {
  const empty = emptySetup();
  return { ...empty, ...changes, sampling: { ...empty.sampling, ...sampling } };
};

test('an address brings back what was written into it', () => {
  const written = setup({ persona: 'You are Ada & say “héllo”.\nمرحبا', voice: 'NATF2.pt', seed: '7' }, { text_top_k: '25' });
  assert.deepEqual(readAddress(writeAddress(written)), written);
});

test('an address without a set-up is none, and an empty set-up leaves no trace', () => {
  assert.equal(readAddress(''), null);
  assert.equal(readAddress('#token=x'), null);
  assert.equal(writeAddress(setup()), '');
  assert.deepEqual(readAddress('#voice='), setup());
});

test('what else is in the address stays', () => {
  assert.equal(writeAddress(setup({ seed: '3' }), '#debug=1&seed=9&persona=old'), '#debug=1&seed=3');
});

test('an endless address is cut', () => {
  assert.equal(readAddress(`#persona=${'x'.repeat(100_000)}&seed=${'9'.repeat(1000)}`).persona.length, 20_000);
});

test('only numbers of their range are asked for', () => {
  assert.equal(numberIn('0.8', RANGES.sampling.audio_temperature), 0.8);
  for (const typed of ['', ' ', 'x', '-1', '2.1', 'NaN', 'Infinity', '1e999']) {
    assert.equal(numberIn(typed, RANGES.sampling.audio_temperature), null, typed);
  }
  assert.equal(numberIn('1.5', RANGES.seed), null);
  assert.deepEqual(request(setup({ persona: '  Ada ', seed: '7' }, { audio_top_k: '20', text_top_k: '0' }), RANGES), {
    persona: 'Ada', voice: undefined, seed: 7, sampling: { audio_top_k: 20 },
  });
});

test('an engine that does not sample is asked for nothing of it', () => {
  const asked = request(setup({}, { audio_top_k: '20' }), { ...RANGES, sampling: null });
  assert.deepEqual(asked, { persona: undefined, voice: undefined, seed: undefined, sampling: undefined });
});
