import { CallError } from './errors.js';

/**
 * @typedef {object} EngineInfo
 * @property {string} name
 * @property {string} summary One honest sentence: what the engine is and what it is not.
 * @property {string} device
 * @property {string[]} voices
 * @property {string} [default_voice]
 * @property {string} [default_persona]
 * @property {string} [persona_note]
 * @property {number} [max_persona_chars]
 * @property {boolean} [hears_interruptions]
 * @property {Record<'audio_temperature' | 'audio_top_k' | 'text_temperature' | 'text_top_k', {default: number, min: number, max: number}> | null} [sampling]
 *   Null: it does not sample.
 * @property {Record<string, string>} [voice_samples] Path of a sample, by voice.
 *
 * @typedef {object} ServerConfig
 * @property {EngineInfo} engine
 * @property {{total: number, free: number}} slots
 * @property {string} protocol
 * @property {Record<string, number>} [limits]
 * @property {{ok: boolean, message: string, addresses: string[]}} [connectivity]
 * @property {boolean} [auth]
 * @property {string} [version]
 * @property {RTCIceServer[]} [ice_servers] With credentials of a short life, for one call.
 *
 * @typedef {object} Sampling
 * @property {number} [audio_temperature]
 * @property {number} [audio_top_k]
 * @property {number} [text_temperature]
 * @property {number} [text_top_k]
 *
 * @typedef {object} SessionRequest
 * @property {string} sdp
 * @property {'offer'} type
 * @property {string} [persona]
 * @property {string} [voice]
 * @property {number} [seed]
 * @property {Sampling} [sampling]
 * @property {string} [resume] The token of a conversation that goes on over this connection.
 * @property {number} [last_event] Number of the last event of it that was seen.
 *
 * @typedef {object} SessionAnswer
 * @property {string} id
 * @property {string} sdp
 * @property {'answer'} type
 * @property {string} [resume_token]
 * @property {RTCIceServer[]} [ice_servers]
 */

const TIMEOUT_MS = 15_000;
const HERE = 'check that it is still running';
/** A browser does not tell a page why. */
const ELSEWHERE = 'check its address and that it is running, and that it allows this page: --allow-origin with the origin of the page';
const MAX_TOKEN_CHARS = 4_096;
const CONFIG_TIMEOUT_MS = 4_000;
/** What a call can do without is not waited for. */
const ICE_SERVERS_TIMEOUT_MS = 2_000;

/** The HTTP side of the server. Every failure is a `CallError`. */
export class Api {
  #baseUrl;
  #token;
  #fetch;

  /** @param {{baseUrl?: string, token?: string, fetch?: typeof globalThis.fetch}} [options] */
  constructor({ baseUrl = '', token = '', fetch = globalThis.fetch } = {}) {
    this.#baseUrl = baseUrl.replace(/\/+$/, '');
    this.#token = token;
    // A detached fetch is an illegal invocation in browsers, hence the wrapper.
    this.#fetch = (/** @type {string} */ url, /** @type {RequestInit} */ init) => fetch(url, init);
  }

  /** @returns {Promise<ServerConfig>} */
  async config() {
    return this.#json('GET', '/v1/config', { timeoutMs: CONFIG_TIMEOUT_MS });
  }

  /**
   * TURN servers for the next call. Never fails: a server may have none, and who cannot be asked cannot be called.
   *
   * @returns {Promise<RTCIceServer[]>}
   */
  async iceServers() {
    try {
      const config = await this.#json('GET', '/v1/config', { timeoutMs: ICE_SERVERS_TIMEOUT_MS });
      return Array.isArray(config?.ice_servers) ? config.ice_servers : [];
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      return [];
    }
  }

  /**
   * A file of the server, such as the sample of a voice.
   *
   * @param {string} path
   */
  async blob(path) {
    const response = await this.#request('GET', path);
    return response.blob().catch((cause) => {
      throw this.#unreachable(`GET ${path}: the answer broke off`, cause);
    });
  }

  /**
   * Post an offer: takes a slot of the engine, or takes a conversation over.
   *
   * @param {SessionRequest} request
   * @param {number} [timeoutMs]
   * @returns {Promise<SessionAnswer>}
   */
  async createSession(request, timeoutMs) {
    return answerOf(await this.#json('POST', '/v1/sessions', { body: request, timeoutMs }));
  }

  /**
   * Post an offer with a data channel only: a test of the network, no call.
   *
   * @param {string} sdp
   * @returns {Promise<SessionAnswer>}
   */
  async testConnectivity(sdp) {
    return answerOf(await this.#json('POST', '/v1/connectivity', { body: { sdp, type: 'offer' } }));
  }

  /**
   * A later offer for a call that goes on.
   *
   * @param {string} id
   * @param {string} sdp
   * @param {number} timeoutMs
   * @returns {Promise<SessionAnswer>}
   */
  async renegotiate(id, sdp, timeoutMs) {
    const body = { sdp, type: 'offer' };
    return answerOf(await this.#json('PATCH', `/v1/sessions/${encodeURIComponent(id)}`, { body, timeoutMs }));
  }

  /**
   * End a session. Never fails: a session that is gone already is what was wanted.
   *
   * @param {string} id
   * @returns {Promise<void>}
   */
  async deleteSession(id) {
    try {
      // keepalive: the request outlives the page, so a closed tab frees its slot.
      await this.#request('DELETE', `/v1/sessions/${encodeURIComponent(id)}`, { keepalive: true });
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
    }
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {{body?: unknown, keepalive?: boolean, timeoutMs?: number}} [options]
   */
  async #request(method, path, { body, keepalive = false, timeoutMs = TIMEOUT_MS } = {}) {
    if (!isSendable(this.#token)) {
      throw new CallError('unauthorized', 'the API key has characters that no key has, or is too long', { hint: 'copy the whole key again' });
    }
    /** @type {Record<string, string>} */
    const headers = { Accept: 'application/json' };
    if (this.#token) headers.Authorization = `Bearer ${this.#token}`;
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    let response;
    try {
      response = await this.#fetch(this.#baseUrl + path, {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        keepalive,
        cache: 'no-store',
        credentials: 'same-origin',
        signal: AbortSignal.timeout(timeoutMs),
      });
    } catch (cause) {
      throw this.#unreachable(`${method} ${path}: no answer from the server`, cause);
    }
    if (!response.ok) throw await errorOf(response, `${method} ${path}`);
    return response;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {{body?: unknown, timeoutMs?: number}} [options]
   */
  async #json(method, path, options) {
    const response = await this.#request(method, path, options);
    try {
      return await response.json();
    } catch (cause) {
      if (!(cause instanceof SyntaxError)) throw this.#unreachable(`${method} ${path}: the answer broke off`, cause);
      throw new CallError('bad_answer', 'the server answered with something that is not JSON', {
        status: response.status,
        cause,
      });
    }
  }

  /**
   * An answer that breaks off, or takes too long, is as good as none.
   *
   * @param {string} message
   * @param {unknown} cause
   */
  #unreachable(message, cause) {
    return new CallError('server_unreachable', message, { hint: this.#baseUrl ? ELSEWHERE : HERE, cause });
  }
}

/**
 * Whether a server can have such a key: a browser or a proxy stumbles over others.
 *
 * @param {string} token
 */
export function isSendable(token) {
  return token.length <= MAX_TOKEN_CHARS && /^[\x20-\x7e]*$/.test(token);
}

/** @param {any} answer */
function answerOf(answer) {
  if (typeof answer?.id !== 'string' || typeof answer?.sdp !== 'string') {
    throw new CallError('bad_answer', 'the server answered the offer without id or sdp');
  }
  return answer;
}

/**
 * The error body {code, message, hint}, or the best that can be said of an answer without one (a proxy's, say).
 *
 * @param {Response} response
 * @param {string} what
 */
async function errorOf(response, what) {
  const body = await response.json().catch(() => null);
  const text = (/** @type {unknown} */ value) => (typeof value === 'string' ? value : '');
  return new CallError(
    text(body?.code) || `http_${response.status}`,
    text(body?.message) || `${what}: HTTP ${response.status}`,
    { hint: text(body?.hint), status: response.status, retryAfterS: retryAfterS(response.headers.get('Retry-After')) },
  );
}

/** @param {string | null} header Only the form in seconds; a date is not worth a clock comparison. */
function retryAfterS(header) {
  return header && /^\d+$/.test(header.trim()) ? Number(header) : null;
}
