/**
 * A call with the agent, for any page. No framework, no other file of the page than the imports below.
 *
 *     import { RtcClient } from './client.js';
 *
 *     const audio = document.querySelector('audio');      // <audio autoplay playsinline>: echo cancellation needs it
 *     const client = new RtcClient({ baseUrl: 'https://voice.example.com', token: 'my-key' });
 *
 *     client.addEventListener('track', ({ detail }) => { audio.srcObject = detail.stream; });
 *     client.addEventListener('sound', () => audio.play());   // a phone call or another headset may have paused it
 *     client.addEventListener('state', ({ detail }) => console.log(detail.state, detail.reason));
 *     client.addEventListener('response.delta', ({ detail }) => console.log('agent:', detail.data));
 *     client.addEventListener('input.transcript', ({ detail }) => { if (detail.final) console.log('you:', detail.text); });
 *
 *     document.querySelector('#call').onclick = () => client.connect({   // a gesture: browsers play no sound without one
 *       microphone: () => navigator.mediaDevices.getUserMedia({
 *         audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true },
 *       }),
 *       persona: 'You are a patient teacher.',
 *     });
 *     document.querySelector('#end').onclick = () => client.close();
 *     addEventListener('pagehide', () => client.close({ atOnce: true }));   // unless the page can come back: docs/client.md
 *
 * Every event of the server is dispatched under its own type with the message as `detail` (docs/client.md lists them).
 * Beside them: `message` (each of them, before its own type), `state` {state, reason}, `track` {stream}, `microphone`
 * {state, code} and `sound` {}.
 *
 * A call that breaks is mended without the page: the client looks for a new way to the server when nothing comes through
 * or the network changes, and takes the conversation over with a new connection where that fails. A client serves one
 * conversation; make a new one for the next.
 */

import { Api } from './client/api.js';
import { Capture } from './client/capture.js';
import { CallError } from './client/errors.js';
import { Inbox } from './client/inbox.js';
import { Lifecycle, surroundings } from './client/lifecycle.js';
import { Lines } from './client/lines.js';
import { Reconnector } from './client/reconnect.js';
import { SoundWatch } from './client/soundwatch.js';
import { readStats } from './client/stats.js';

/**
 * @typedef {'idle' | 'connecting' | 'preparing' | 'live' | 'degraded' | 'ended'} ClientState
 *   preparing: connected, the engine reads its prompt. degraded: nothing comes through at present; it may come back.
 *
 * @typedef {object} Resumption What it takes to go on with a conversation from another page; plain data, for a storage.
 *   Who has it has the conversation: keep it where only the person's own pages can read it.
 * @property {string} token
 * @property {number} lastEvent Number of the last event that was seen.
 *
 * @typedef {object} CallOptions
 * @property {import('./client/capture.js').MicrophoneSource} [microphone] A stream, or a function that gets one and is called
 *   again when the microphone was lost. Null: listen only.
 * @property {string} [persona]
 * @property {string} [voice]
 * @property {number} [seed]
 * @property {import('./client/api.js').Sampling} [sampling]
 * @property {Resumption} [resume] Go on with this conversation, instead of a new one; persona and voice are its own.
 */

const GOODBYE_TIMEOUT_MS = 500;
/** Why a call is degraded when this side saw it first. */
const NETWORK = 'network';

export class RtcClient extends EventTarget {
  #api;
  #lines;
  #lifecycle;
  #reconnector;
  #watch;
  /** Whether this browser can make calls at all. */
  #able;
  /** @type {ClientState} */
  #state = 'idle';
  /** @type {Capture | null} */
  #capture = null;
  #inbox = new Inbox();
  #muted = false;
  /** Whether it goes on with a conversation of another page. */
  #takesOver = false;
  /** Whether the agent could be talked to before. */
  #wasLive = false;
  #degradedBy = '';
  /** What the server said before it left. */
  #farewell = '';
  /** Why the call is over. */
  #endedBy = '';

  /**
   * @param {object} [options]
   * @param {string} [options.baseUrl] The server's origin; '' where it is the page's own.
   * @param {string} [options.token] API key.
   * @param {RTCIceServer[]} [options.iceServers] Beside those of the server.
   * @param {typeof globalThis.fetch} [options.fetch]
   * @param {typeof globalThis.RTCPeerConnection} [options.RTCPeerConnection]
   * @param {import('./client/lifecycle.js').Surroundings} [options.around] The browser, or what stands for it in a test.
   */
  constructor({ baseUrl, token, iceServers = [], fetch, RTCPeerConnection = globalThis.RTCPeerConnection, around = surroundings() } = {}) {
    super();
    this.#able = Boolean(RTCPeerConnection);
    this.#api = new Api({ baseUrl, token, fetch });
    this.#lines = new Lines(
      {
        api: this.#api,
        PeerConnection: RTCPeerConnection,
        iceServers,
        microphone: () => this.microphone,
        lastEvent: () => this.#inbox.last,
      },
      {
        message: (data, urgent) => this.#onMessage(data, urgent),
        track: (stream) => this.#emit('track', { stream }),
        state: (state) => this.#onConnectionState(state),
        left: () => this.#onLeft(),
      },
    );
    this.#lifecycle = new Lifecycle(
      {
        visible: () => this.#onVisible(),
        leaving: () => this.#onLeaving(),
        back: () => this.#onBack(),
        network: () => this.#onNetwork(),
        devices: () => this.#onDevices(),
      },
      around,
    );
    const packets = async () => (await this.stats()).packetsReceived;
    this.#watch = new SoundWatch({
      packets,
      isVisible: () => this.#lifecycle.isVisible,
      onSilence: () => this.#reconnector.check(),
    });
    this.#reconnector = new Reconnector(
      {
        restart: (timeoutMs) => this.#lines.restart(timeoutMs),
        resume: () => this.#lines.resume(),
        canRestart: () => this.#lines.current?.isClosed === false,
        canResume: () => this.#lines.resumeToken !== null,
        isOnline: () => this.#lifecycle.isOnline,
        packets,
      },
      {
        trouble: () => this.#setState('degraded', NETWORK),
        recovered: () => {
          this.#watch.start();
          if (this.#degradedBy === NETWORK) this.#setState(this.#wasLive ? 'live' : 'preparing', '');
        },
        lost: (reason) => this.#finish(reason, { tellServer: reason !== 'session_not_found' }),
      },
    );
  }

  get state() {
    return this.#state;
  }

  get sessionId() {
    return this.#lines.sessionId;
  }

  /** The agent's voice; null before the event `track`. */
  get stream() {
    return this.#lines.current?.stream ?? null;
  }

  get muted() {
    return this.#muted;
  }

  /** The microphone as it is now; another one after it was lost and came back. */
  get microphone() {
    return this.#capture?.stream ?? null;
  }

  /** What another page needs to go on with this conversation; null where there is none. @returns {Resumption | null} */
  get resumption() {
    const token = this.#lines.resumeToken;
    return token === null || this.#isEnded ? null : { token, lastEvent: this.#inbox.last };
  }

  /**
   * Set up the call. Resolves when the server can be heard and events flow; the state is `preparing` or `live` then.
   * With a function for the microphone, no slot is taken before it has given one.
   *
   * @param {CallOptions} [options]
   * @throws {CallError} The call is over then, and its slot is free again, unless the server did not confirm that within
   *   half a second. A conversation that was to be resumed goes on waiting, as long as the server keeps it;
   *   `session_not_found`: there is none.
   */
  async connect({ microphone = null, persona, voice, seed, sampling, resume } = {}) {
    if (this.#state !== 'idle') throw new CallError('already_used', `a client serves one call; this one is ${this.#state}`);
    if (!this.#able) throw new CallError('no_webrtc', 'this browser has no RTCPeerConnection');
    this.#setState('connecting', '');
    this.#lifecycle.start();
    if (resume) {
      this.#takesOver = true;
      this.#inbox = new Inbox(resume.lastEvent);
      this.#lines.resumeToken = resume.token;
    }
    try {
      await this.#openCapture(microphone);
      await this.#lines.open({ persona, voice, seed, sampling });
      if (this.state === 'connecting') this.#setState('preparing', '');
      this.#watch.start();
    } catch (cause) {
      let error = cause instanceof CallError ? cause : new CallError('connect_failed', String(cause), { cause });
      if (this.#endedBy === 'closed') error = new CallError('cancelled', 'the call was closed', { cause });
      else if (this.#endedBy) error = new CallError(this.#endedBy, 'the call ended while connecting', { cause });
      await this.#finish(error.code, { tellServer: !this.#takesOver });
      throw error;
    }
  }

  /** @param {import('./client/capture.js').MicrophoneSource} source */
  async #openCapture(source) {
    const capture = new Capture(source, {
      state: (state, code) => this.#onMicrophone(state, code),
      track: async (track) => this.#lines.current?.replaceTrack(track),
    });
    this.#capture = capture;
    capture.mute(this.#muted);
    await capture.open();
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
    const id = Math.random().toString(36).slice(2); // the server acts on the first of the two that it gets
    this.#lines.current?.send({ type: 'response.cancel', id }, { urgently: true });
  }

  /** @param {boolean} muted Silence instead of the microphone; the call goes on. */
  mute(muted) {
    this.#muted = muted;
    this.#capture?.mute(muted);
  }

  /**
   * Ask for the microphone again, after `microphone` told that it is gone; best in a gesture.
   *
   * @returns {Promise<boolean>} Whether it is there. Needs a function for the microphone in `connect`.
   */
  async reopenMicrophone() {
    return (await this.#capture?.reopen()) ?? false;
  }

  /**
   * Use another microphone from now on. The one before is heard until it is there, so the call has no break.
   *
   * @param {Exclude<import('./client/capture.js').MicrophoneSource, null>} source A function is called at once, and again
   *   when the microphone was lost.
   * @throws {CallError} The one before stays. `no_microphone`: there is no call, or it only listens.
   */
  async useMicrophone(source) {
    if (!this.#capture) throw new CallError('no_microphone', 'there is no call yet');
    await this.#capture.use(source);
  }

  /**
   * Send an event of the protocol. Dropped when the channel is not open.
   *
   * @param {{type: string, [field: string]: unknown}} event
   * @returns {boolean} Whether it was sent.
   */
  send(event) {
    return this.#lines.current?.send(event) ?? false;
  }

  /** @returns {Promise<import('./client/stats.js').CallStats>} Levels, delays and losses since the connection began. */
  async stats() {
    return readStats((await this.#lines.current?.stats()) ?? new Map());
  }

  /**
   * RTP timestamp of the agent's audio that was handed to the speaker last; null where the browser does not tell.
   * Compare with `rtp_timestamp` of `response.delta` to show a word when it is heard. A new `track` counts anew.
   *
   * @returns {number | null}
   */
  playoutTimestamp() {
    return this.#lines.current?.playoutTimestamp() ?? null;
  }

  // ---- what happens ----------------------------------------------------------------------------------------------

  get #isEnded() {
    return this.#state === 'ended';
  }

  /** Between connecting and the end, when a break can be mended. */
  get #isUnderWay() {
    return this.#state === 'preparing' || this.#state === 'live' || this.#state === 'degraded';
  }

  /** @param {RTCPeerConnectionState} connectionState */
  #onConnectionState(connectionState) {
    if (!this.#isUnderWay) return; // `connect` watches over it
    if (connectionState === 'failed' || connectionState === 'disconnected') this.#reconnector.check();
  }

  #onLeft() {
    // While a broken call is being mended, an old line may well be closed.
    if (!this.#reconnector.isBusy) this.#finish(this.#farewell || 'connection_lost');
  }

  #onVisible() {
    if (!this.#isUnderWay) return;
    this.#emit('sound', {});
    this.#capture?.check();
    this.#watch.start();
    if (!this.#lines.current?.isConnected) this.#reconnector.check();
    this.#reconnector.hurry();
  }

  /** The page may come back, so the slot is kept; but not the connection, or the server would wait for it. */
  #onLeaving() {
    if (!this.#isUnderWay || this.resumption === null) {
      const tellServer = this.#isUnderWay || !this.#takesOver; // what was to be resumed waits for the next page
      return void this.#finish('closed', { tellServer, atOnce: true });
    }
    this.#watch.stop();
    this.#lines.current?.close();
    this.#setState('degraded', NETWORK);
  }

  #onBack() {
    if (!this.#isUnderWay) return;
    this.#capture?.check();
    this.#reconnector.check();
  }

  #onNetwork() {
    if (!this.#isUnderWay) return;
    if (!this.#reconnector.isBusy) this.#reconnector.check({ precaution: true });
    this.#reconnector.hurry();
  }

  #onDevices() {
    if (!this.#isUnderWay) return;
    this.#emit('sound', {});
    this.#capture?.check();
  }

  /**
   * @param {import('./client/capture.js').MicrophoneState} state
   * @param {string} code
   */
  #onMicrophone(state, code) {
    this.#emit('microphone', { state, code });
    if (state === 'live') this.#emit('sound', {}); // what took the microphone has often paused the speaker too
  }

  /**
   * @param {unknown} data
   * @param {boolean} urgent
   */
  #onMessage(data, urgent) {
    for (const event of this.#inbox.read(data, urgent)) {
      if (this.#isEnded) return;
      this.#onEvent(event);
    }
  }

  /** @param {import('./client/inbox.js').ServerEvent} event */
  #onEvent(event) {
    // Over the old line, when a new one of our own has taken its place.
    if (event.type === 'session.ended' && event.reason === 'replaced' && this.#lines.mayBeReplaced) return;
    if (event.type === 'session.ended') this.#farewell = String(event.reason ?? '') || 'ended';
    if (event.type === 'session.created' && event.resume_token) this.#lines.resumeToken = String(event.resume_token);
    this.#emit('message', event);
    this.#emit(event.type, event);
    switch (event.type) {
      case 'session.ready':
      case 'session.resumed':
        this.#wasLive = true;
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
    if (this.#state === 'ended' || this.#state === 'idle') return;
    this.#endedBy = reason;
    this.#setState('ended', reason);
    this.#reconnector.stop();
    this.#watch.stop();
    this.#lifecycle.stop();
    this.#capture?.close();
    this.#lines.current?.silence();
    const { sessionId } = this.#lines;
    if (tellServer && sessionId) {
      // The request first and the connection after it, so that the server never meets a DELETE for a session gone by.
      const told = this.#api.deleteSession(sessionId);
      if (!atOnce) await Promise.race([told, new Promise((resolve) => setTimeout(resolve, GOODBYE_TIMEOUT_MS))]);
    }
    this.#lines.close({ isOver: tellServer || !this.#takesOver });
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
