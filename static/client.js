/**
 * A call with the agent, for any page. No framework, no other file of the page than the imports below.
 *
 *     import { RtcClient } from './client.js';
 *
 *     const audio = document.querySelector('audio');      // <audio autoplay playsinline>: echo cancellation needs it
 *     const client = new RtcClient({ baseUrl: 'https://voice.example.com', token: 'my-key' });
 *
 *     client.addEventListener('track', ({ detail }) => { audio.srcObject = detail.stream; });
 *     client.addEventListener('state', ({ detail }) => console.log(detail.state, detail.reason));
 *     client.addEventListener('response.delta', ({ detail }) => console.log('agent:', detail.data));
 *     client.addEventListener('input.transcript', ({ detail }) => { if (detail.final) console.log('you:', detail.text); });
 *
 *     document.querySelector('#call').onclick = async () => {   // a gesture: browsers play no sound without one
 *       const microphone = await navigator.mediaDevices.getUserMedia({
 *         audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true },
 *       });
 *       await client.connect({ microphone, persona: 'You are a patient teacher.' });
 *     };
 *     document.querySelector('#end').onclick = () => client.close();
 *     addEventListener('pagehide', () => client.close({ atOnce: true }));   // or the slot stays taken for seconds
 *
 * Every event of the server is dispatched under its own type with the message as `detail` (docs/client.md lists them).
 * Beside them: `state` {state, reason} and `track` {stream}. A client serves one call; make a new one for the next.
 */

import { Api } from './api.js';
import { CallError } from './errors.js';
import { readStats } from './stats.js';

/**
 * @typedef {'idle' | 'connecting' | 'preparing' | 'live' | 'degraded' | 'ended'} ClientState
 *   preparing: connected, the engine reads its prompt. degraded: nothing comes through at present; it may come back.
 *
 * @typedef {object} CallOptions
 * @property {MediaStream | null} [microphone] Null: listen only.
 * @property {string} [persona]
 * @property {string} [voice]
 * @property {number} [seed]
 * @property {import('./api.js').Sampling} [sampling]
 *
 * @typedef {{type: string, [field: string]: any}} ServerEvent
 */

/** The server gives ICE 10 s and DTLS 5 s; whoever is not connected by then cannot reach its UDP port. */
const CONNECT_TIMEOUT_MS = 12_000;
const GOODBYE_TIMEOUT_MS = 500;
/** Why a call is degraded when this side saw it first. */
const NETWORK = 'network';

export class RtcClient extends EventTarget {
  #api;
  #iceServers;
  #PeerConnection;
  /** @type {ClientState} */
  #state = 'idle';
  /** @type {RTCPeerConnection | null} */
  #peer = null;
  /** @type {RTCDataChannel | null} */
  #events = null;
  /** @type {string | null} */
  #sessionId = null;
  /** @type {MediaStream | null} */
  #microphone = null;
  /** @type {MediaStream | null} */
  #stream = null;
  #muted = false;
  #degradedBy = '';
  /** What the server said before it left. */
  #farewell = '';

  /**
   * @param {object} [options]
   * @param {string} [options.baseUrl] The server's origin; '' where it is the page's own.
   * @param {string} [options.token] API key.
   * @param {RTCIceServer[]} [options.iceServers] Needed only behind firewalls that block UDP (TURN).
   * @param {typeof globalThis.fetch} [options.fetch]
   * @param {typeof globalThis.RTCPeerConnection} [options.RTCPeerConnection]
   */
  constructor({ baseUrl, token, iceServers = [], fetch, RTCPeerConnection = globalThis.RTCPeerConnection } = {}) {
    super();
    this.#api = new Api({ baseUrl, token, fetch });
    this.#iceServers = iceServers;
    this.#PeerConnection = RTCPeerConnection;
  }

  get state() {
    return this.#state;
  }

  get sessionId() {
    return this.#sessionId;
  }

  /** The agent's voice; null before the event `track`. */
  get stream() {
    return this.#stream;
  }

  get muted() {
    return this.#muted;
  }

  /**
   * Set up the call. Resolves when the server can be heard and events flow; the state is `preparing` or `live` then.
   *
   * @param {CallOptions} [options]
   * @throws {CallError} The call is over then, and the slot is free again.
   */
  async connect({ microphone = null, persona, voice, seed, sampling } = {}) {
    if (this.#state !== 'idle') throw new CallError('already_used', `a client serves one call; this one is ${this.#state}`);
    if (!this.#PeerConnection) throw new CallError('no_webrtc', 'this browser has no RTCPeerConnection');
    this.#setState('connecting', '');
    try {
      const peer = this.#openPeer(microphone);
      const connected = this.#connected(peer);
      connected.catch(() => {}); // it is awaited below, and may fail before
      await peer.setLocalDescription();
      const sdp = peer.localDescription?.sdp ?? '';
      const answer = await this.#api.createSession({ sdp, type: 'offer', persona, voice, seed, sampling });
      this.#sessionId = answer.id;
      if (this.#isEnded()) {
        await this.#api.deleteSession(answer.id); // closed while the offer was on its way
        throw new CallError('cancelled', 'the call was closed before it was connected');
      }
      await peer.setRemoteDescription({ type: 'answer', sdp: answer.sdp });
      await connected;
    } catch (cause) {
      let error = cause instanceof CallError ? cause : new CallError('connect_failed', String(cause), { cause });
      if (this.#isEnded() && !(cause instanceof CallError)) error = new CallError('cancelled', 'the call was closed', { cause });
      this.#finish(error.code, { tellServer: true });
      throw error;
    }
  }

  /**
   * Say goodbye, stop the agent's voice and free the slot. May be called at any time and twice.
   *
   * @param {{atOnce?: boolean}} [options] `atOnce` for `pagehide`, where nothing can be awaited.
   */
  async close({ atOnce = false } = {}) {
    await this.#finish('closed', { tellServer: true, atOnce });
  }

  /** Stop what the agent is saying. The engine goes on, and hears the silence. */
  cancel() {
    this.send({ type: 'response.cancel' });
  }

  /** @param {boolean} muted Silence instead of the microphone; the call goes on. */
  mute(muted) {
    this.#muted = muted;
    for (const track of this.#microphone?.getAudioTracks() ?? []) track.enabled = !muted;
  }

  /**
   * Send an event of the protocol. Dropped when the channel is not open.
   *
   * @param {{type: string, [field: string]: unknown}} event
   * @returns {boolean} Whether it was sent.
   */
  send(event) {
    if (this.#events?.readyState !== 'open') return false;
    this.#events.send(JSON.stringify(event));
    return true;
  }

  /** @returns {Promise<import('./stats.js').CallStats>} Levels, delays and losses since the call began. */
  async stats() {
    return readStats(/** @type {any} */ ((await this.#peer?.getStats()) ?? new Map()));
  }

  /**
   * RTP timestamp (48 kHz) of the agent's audio that was handed to the speaker last; null where the browser does not
   * tell. Compare with `rtp_timestamp` of `response.delta` to show a word when it is heard.
   *
   * @returns {number | null}
   */
  playoutTimestamp() {
    const receiver = this.#peer?.getReceivers().find(({ track }) => track.kind === 'audio');
    return receiver?.getSynchronizationSources?.()[0]?.rtpTimestamp ?? null;
  }

  #isEnded() {
    return this.#state === 'ended';
  }

  /** @param {MediaStream | null} microphone */
  #openPeer(microphone) {
    const peer = new this.#PeerConnection({ bundlePolicy: 'max-bundle', iceServers: this.#iceServers });
    this.#peer = peer;
    this.#microphone = microphone;
    const [track] = microphone?.getAudioTracks() ?? [];
    if (track && microphone) peer.addTrack(track, microphone);
    else peer.addTransceiver('audio', { direction: 'recvonly' });
    this.mute(this.#muted);

    peer.addEventListener('track', ({ track: received, streams }) => {
      this.#stream = streams[0] ?? new MediaStream([received]);
      this.#emit('track', { stream: this.#stream });
    });
    peer.addEventListener('connectionstatechange', () => this.#onConnectionState(peer.connectionState));

    const events = peer.createDataChannel('events');
    this.#events = events;
    events.addEventListener('message', ({ data }) => this.#onMessage(data));
    // A server that leaves closes the channel at once, while connectionState stays `connected` for seconds.
    events.addEventListener('close', () => this.#finish(this.#farewell || 'connection_lost'));
    return peer;
  }

  /**
   * Settles once: the channel opened, or it never will.
   *
   * @param {RTCPeerConnection} peer
   */
  #connected(peer) {
    return new Promise((/** @type {(value?: undefined) => void} */ resolve, reject) => {
      const fail = (/** @type {string} */ message) => reject(new CallError('ice_failed', message));
      const timer = setTimeout(() => fail(`no connection within ${CONNECT_TIMEOUT_MS / 1000} s`), CONNECT_TIMEOUT_MS);
      this.addEventListener('state', (event) => {
        const { detail } = /** @type {CustomEvent} */ (event);
        clearTimeout(timer);
        if (detail.state !== 'ended') resolve();
        else reject(new CallError(detail.reason === 'closed' ? 'cancelled' : detail.reason, 'the call ended while connecting'));
      }, { once: true });
      peer.addEventListener('connectionstatechange', () => {
        if (peer.connectionState === 'failed') fail('ICE found no way to the server');
      });
      this.#events?.addEventListener('open', () => {
        if (this.#state === 'connecting') this.#setState('preparing', '');
      }, { once: true });
    });
  }

  /** @param {RTCPeerConnectionState} connectionState */
  #onConnectionState(connectionState) {
    if (this.#state === 'connecting') return; // `connect` watches over it
    if (connectionState === 'failed') this.#finish('connection_lost', { tellServer: true });
    else if (connectionState === 'disconnected' && this.#state === 'live') this.#setState('degraded', NETWORK);
    else if (connectionState === 'connected' && this.#degradedBy === NETWORK) this.#setState('live', '');
  }

  /** @param {unknown} data */
  #onMessage(data) {
    /** @type {ServerEvent} */
    let event;
    try {
      event = JSON.parse(String(data));
    } catch {
      return; // not of this protocol
    }
    if (typeof event?.type !== 'string') return;
    if (event.type === 'session.ended') this.#farewell = String(event.reason ?? '') || 'ended';
    this.#emit(event.type, event);
    switch (event.type) {
      case 'session.ready':
      case 'session.resumed':
        return this.#setState('live', '');
      case 'session.degraded':
        return this.#setState('degraded', String(event.reason ?? ''));
      case 'session.engine_lost':
        return this.#setState('degraded', 'engine_lost');
      case 'session.ended':
        this.#finish(this.#farewell);
    }
  }

  /**
   * The one way out.
   *
   * @param {string} reason
   * @param {{tellServer?: boolean, atOnce?: boolean}} [options]
   */
  async #finish(reason, { tellServer = false, atOnce = false } = {}) {
    const peer = this.#peer;
    if (this.#state === 'ended' || this.#state === 'idle') return;
    this.#setState('ended', reason);
    for (const { track } of peer?.getReceivers() ?? []) track.enabled = false;
    if (tellServer && this.#sessionId) {
      // The request first and the connection after it, so that the server never meets a DELETE for a session gone by.
      const told = this.#api.deleteSession(this.#sessionId);
      if (!atOnce) await Promise.race([told, new Promise((resolve) => setTimeout(resolve, GOODBYE_TIMEOUT_MS))]);
    }
    peer?.close();
  }

  /**
   * @param {ClientState} state
   * @param {string} reason
   */
  #setState(state, reason) {
    if (state === this.#state || this.#state === 'ended') return;
    this.#state = state;
    this.#degradedBy = state === 'degraded' ? reason : '';
    this.#emit('state', { state, reason });
  }

  /**
   * @param {string} type
   * @param {any} detail
   */
  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
