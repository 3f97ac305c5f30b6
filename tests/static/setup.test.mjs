import assert from 'node:assert/strict';
import { test } from 'node:test';

import { chars, emptySetup, link, missing, numberIn, readAddress, request, writeAddress } from '../../static/page/setup.js';

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

test('a seed that is sent is not said to be missing, whether the engine samples or not', () => {
  const linked = setup({ seed: '7' });
  assert.equal(request(linked, { ...RANGES, sampling: null }).seed, 7);
  assert.equal(missing(linked, { voices: [], sampling: null }).numbers, false);
});

test('a link is made of what is chosen, whatever the address says, and holds no key', () => {
  const location = { origin: 'https://host', pathname: '/talk/', search: '?lang=de', hash: '#debug=1&seed=9&token=s3cret' };
  assert.equal(link(setup({ persona: 'Ada & I', voice: 'A' }), location), 'https://host/talk/?lang=de#debug=1&persona=Ada+%26+I&voice=A');
  assert.equal(link(setup(), { ...location, hash: '' }), 'https://host/talk/?lang=de');
});

test('a persona is as long as the server counts it', () => {
  assert.equal(chars('🙂'.repeat(2_500)), 2_500);
  assert.equal(chars('  Ada\n'), 3); // as it is sent
});

test('what a server cannot do of a set-up is found', () => {
  const engine = { voices: ['A', 'B'], sampling: {} };
  assert.deepEqual(missing(setup({ voice: 'A', seed: '7' }, { text_top_k: '9' }), engine), { voice: '', numbers: false });
  assert.deepEqual(missing(setup(), { ...engine, sampling: null }), { voice: '', numbers: false });
  assert.deepEqual(missing(setup({ voice: 'GONE', seed: '7' }), { ...engine, sampling: null }), { voice: 'GONE', numbers: false });
  assert.deepEqual(missing(setup({}, { audio_top_k: '1' }), { voices: ['A'] }), { voice: '', numbers: true });
});
