import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Api } from '../../static/client/api.js';

/** A fetch that answers with `response` and keeps what it was asked. */
function serving(response) {
  const requests = [];
  const fetch = async (url, init) => {
    requests.push({ url, ...init });
    if (response instanceof Error) throw response;
    return response;
  };
  return { fetch, requests };
}

const json = (body, init) => new Response(JSON.stringify(body), init);

test('requests carry the key as bearer and go below the base address', async () => {
  const { fetch, requests } = serving(json({ engine: {} }));
  await new Api({ baseUrl: 'https://host/voice/', token: 'k', fetch }).config();
  assert.equal(requests[0].url, 'https://host/voice/v1/config');
  assert.equal(requests[0].headers.Authorization, 'Bearer k');
});

test('without a key no authorization is sent', async () => {
  const { fetch, requests } = serving(json({}));
  await new Api({ fetch }).config();
  assert.equal(requests[0].url, '/v1/config');
  assert.ok(!('Authorization' in requests[0].headers));
});

test('an offer is posted as JSON and its answer returned', async () => {
  const { fetch, requests } = serving(json({ id: 'a', sdp: 'v=0', type: 'answer' }, { status: 201 }));
  const answer = await new Api({ fetch }).createSession({ sdp: 'v=0', type: 'offer', persona: 'p', voice: undefined });
  assert.equal(answer.id, 'a');
  assert.deepEqual(JSON.parse(requests[0].body), { sdp: 'v=0', type: 'offer', persona: 'p' });
});

test('an error body becomes a CallError with its code and the time to come back', async () => {
  const body = { code: 'engine_full', message: 'all slots are in use', hint: 'wait' };
  const { fetch } = serving(json(body, { status: 503, headers: { 'Retry-After': '5' } }));
  await assert.rejects(new Api({ fetch }).createSession({ sdp: '', type: 'offer' }), {
    name: 'CallError', code: 'engine_full', message: 'all slots are in use', hint: 'wait', status: 503, retryAfterS: 5,
  });
});

test('an answer of a proxy has a code too', async () => {
  const { fetch } = serving(new Response('<h1>Bad Gateway</h1>', { status: 502 }));
  await assert.rejects(new Api({ fetch }).config(), { code: 'http_502', status: 502, retryAfterS: null });
});

test('answers that are not what was asked for are refused', async () => {
  await assert.rejects(new Api({ fetch: serving(new Response('<html>')).fetch }).config(), { code: 'bad_answer' });
  const { fetch } = serving(json({ hello: 'world' }));
  await assert.rejects(new Api({ fetch }).createSession({ sdp: '', type: 'offer' }), { code: 'bad_answer' });
});

test('a server that does not answer is unreachable', async () => {
  await assert.rejects(new Api({ fetch: serving(new TypeError('failed')).fetch }).config(), { code: 'server_unreachable' });
});

test('a body that breaks off is a server that cannot be reached, and not somebody else', async () => {
  const broken = () => Promise.reject(new TypeError('network error'));
  const response = Object.assign(json({}), { json: broken, blob: broken });
  Object.defineProperty(response, 'url', { value: 'https://other/v1/config' });
  for (const [baseUrl, hint] of [['', /^check that it is still running$/], ['https://other', /--allow-origin/]]) {
    const api = new Api({ baseUrl, fetch: serving(response).fetch });
    for (const [what, asked] of [
      ['GET /v1/config', api.config()],
      ['GET /v1/voices/a/sample', api.blob('/v1/voices/a/sample')],
      ['POST /v1/sessions', api.createSession({ sdp: '', type: 'offer' })],
    ]) {
      const message = `${what}: the answer broke off`;
      await assert.rejects(asked, { name: 'CallError', code: 'server_unreachable', status: 0, message, hint });
    }
  }
});

test('an offer is waited for as long as the caller says', async (t) => {
  const waited = t.mock.method(AbortSignal, 'timeout');
  const { fetch } = serving(json({ id: 'a', sdp: 'v=0' }, { status: 201 }));
  await new Api({ fetch }).createSession({ sdp: 'v=0', type: 'offer' }, 6_000);
  assert.deepEqual(waited.mock.calls.map(({ arguments: [ms] }) => ms), [6_000]);
});

test('a session is deleted with keepalive, and one that is gone is no error', async () => {
  const { fetch, requests } = serving(json({ code: 'session_not_found' }, { status: 404 }));
  await new Api({ fetch }).deleteSession('a/b');
  assert.equal(requests[0].url, '/v1/sessions/a%2Fb');
  assert.equal(requests[0].method, 'DELETE');
  assert.equal(requests[0].keepalive, true);
});

test('a key that no server has is refused here, before a browser or a proxy stumbles over it', async () => {
  for (const token of ['ключ', 'abc…', 'a\nb', 'a\u0000b', 'ä', 'x'.repeat(4_097)]) {
    const { fetch, requests } = serving(json({}));
    await assert.rejects(new Api({ token, fetch }).config(), ({ code, hint }) => code === 'unauthorized' && hint !== '');
    assert.deepEqual(await new Api({ token, fetch }).iceServers(), []);
    assert.deepEqual(requests, [], token);
  }
  const { fetch, requests } = serving(json({}));
  await new Api({ token: '~'.repeat(4_096), fetch }).config();
  assert.equal(requests.length, 1);
});

test('how the server is doing is not waited for as long as a call', async (t) => {
  const waited = t.mock.method(AbortSignal, 'timeout');
  await new Api({ fetch: serving(json({})).fetch }).config();
  assert.deepEqual(waited.mock.calls.map(({ arguments: [ms] }) => ms), [4_000]);
});

test('where another server does not answer, the hint names what its owner has to allow', async () => {
  const { fetch } = serving(new TypeError('failed'));
  const refused = (options) => new Api({ ...options, fetch }).createSession({ sdp: '', type: 'offer' });
  await assert.rejects(refused({ baseUrl: 'https://other' }), ({ hint }) => /--allow-origin/.test(hint));
  await assert.rejects(refused({}), ({ hint }) => hint !== '' && !/--allow-origin/.test(hint));
});
