import assert from 'node:assert/strict';
import { test } from 'node:test';

import { holdsToken, takeToken } from '../../static/page/token.js';

function tab(hash) {
  const kept = new Map();
  const urls = [];
  return {
    location: { hash, pathname: '/', search: '?x=1' },
    history: { replaceState: (_state, _title, url) => urls.push(url) },
    storage: { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) },
    urls,
  };
}

test('the key leaves the address bar and is kept for the tab', () => {
  const { location, history, storage, urls } = tab('#token=s3cret%2Bkey');
  assert.equal(takeToken(location, history, storage), 's3cret+key');
  assert.deepEqual(urls, ['/?x=1']);
  assert.equal(takeToken({ ...location, hash: '' }, history, storage), 's3cret+key');
});

test('other parts of the fragment stay', () => {
  const { location, history, storage, urls } = tab('#token=k&debug=1');
  takeToken(location, history, storage);
  assert.deepEqual(urls, ['/?x=1#debug=1']);
});

test('without a key the address bar is left alone', () => {
  const { location, history, storage, urls } = tab('#somewhere');
  assert.equal(takeToken(location, history, storage), '');
  assert.deepEqual(urls, []);
});

test('forbidden storage is no obstacle', () => {
  const { location, history } = tab('#token=k');
  const forbidden = () => {
    throw new Error('denied');
  };
  assert.equal(takeToken(location, history, { getItem: forbidden, setItem: forbidden }), 'k');
  assert.equal(takeToken({ ...location, hash: '' }, history, { getItem: forbidden, setItem: forbidden }), '');
  assert.equal(takeToken({ ...location, hash: '' }, history, null), '');
});

test('a key that no server has is not kept for the tab, so that a better one of before is', () => {
  for (const mangled of ['%D0%BA%D0%BB%D1%8E%D1%87', 'abc%E2%80%A6', 'a%0Ab', 'x'.repeat(10_000)]) {
    const { location, history, storage, urls } = tab('#token=good');
    takeToken(location, history, storage);
    assert.notEqual(takeToken({ ...location, hash: `#token=${mangled}` }, history, storage), 'good');
    assert.equal(urls.at(-1), '/?x=1', 'it leaves the address bar all the same');
    assert.equal(takeToken({ ...location, hash: '' }, history, storage), 'good');
  }
});

test('a key that comes into the address of an open page is seen', () => {
  assert.deepEqual(['#token=k', '#persona=x&token=', '#persona=token', ''].map(holdsToken), [true, true, false, false]);
});
