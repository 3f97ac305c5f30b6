import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { choose } from '../../static/page/language.js';
import { LANGUAGES } from '../../static/strings/languages.js';

const STATIC = new URL('../../static/', import.meta.url);

test('the first of a person’s languages that the page speaks is spoken, and the first of the page’s to anybody else', () => {
  assert.equal(choose(['de-AT', 'en'], ['en', 'de']), 'de');
  assert.equal(choose(['pt-BR', 'pt'], ['en', 'pt', 'pt-BR']), 'pt-BR');
  assert.equal(choose(['xx'], ['en', 'de']), 'en');
  assert.equal(choose([], ['en']), 'en');
});

test('each language has a file, and says what the others say', async () => {
  const files = (await readdir(new URL('strings/', STATIC))).filter((name) => name !== 'languages.js').sort();
  assert.deepEqual(files, Object.keys(LANGUAGES).map((code) => `${code}.js`).sort());
  const shape = (value) =>
    value !== null && typeof value === 'object' && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort().map(([key, inner]) => [key, shape(inner)]))
      : typeof value;
  const load = async (code) => (await import(new URL(`strings/${code}.js`, STATIC))).default;
  const english = shape(await load('en'));
  for (const code of Object.keys(LANGUAGES)) assert.deepEqual(shape(await load(code)), english, code);
});

test('each text that the page names is there, and each that is there is named', async () => {
  const html = await readFile(new URL('index.html', STATIC), 'utf8');
  const named = [...html.matchAll(/data-(?:text|label|title|placeholder)="(\w+)"/g)].map(([, name]) => name);
  const { default: english } = await import(new URL('strings/en.js', STATIC));
  const scripts = await Promise.all(
    ['main.js', ...(await readdir(new URL('page/', STATIC))).map((name) => `page/${name}`)].map((name) => readFile(new URL(name, STATIC), 'utf8')),
  );
  const used = scripts.flatMap((text) => [...text.matchAll(/strings\.page\.(\w+)/g)].map(([, name]) => name));
  assert.deepEqual([...new Set([...named, ...used, 'title'])].sort(), Object.keys(english.page).sort());
});

test('no word stands in the page itself', async () => {
  const html = await readFile(new URL('index.html', STATIC), 'utf8');
  const body = html.slice(html.indexOf('<body'), html.indexOf('<noscript>')).replace(/<[^>]*>/g, ' ');
  assert.deepEqual(body.match(/\p{L}{2,}/gu)?.filter((word) => !['rtc_server', 'rtc', 'server'].includes(word)) ?? [], []);
});
