import { CallError } from './errors.js';

/**
 * One connection to the server: a peer connection with its two data channels, the microphone's sender and the agent's
 * voice. A conversation has one line at a time; when it is taken up after a break, it gets a new one.
 *
 * `events` is ordered and reliable and carries everything. `urgent` is unordered and sends nothing twice: what must be
 * heard at once goes over both, so that no lost packet of the first holds it up.
 *
 * @typedef {object} LineListeners None is called any more once the line is closed.
 * @property {(data: unknown, urgent: boolean) => void} message
 * @property {(stream: MediaStream) => void} track The agent's voice.
 * @property {(state: RTCPeerConnectionState) => void} state
 * @property {() => void} left The server closed the line. `connectionState` would stay `connected` for seconds.
 */

export class Line {
  /** The agent's voice. @type {MediaStream | null} */
  stream = null;
  #peer;
  #events;
  #urgent;
  /** @type {RTCRtpSender | null} */
  #sender = null;
  #closed = false;
  /** @type {Set<() => void>} */
  #whenClosed = new Set();

  /**
   * @param {typeof globalThis.RTCPeerConnection} PeerConnection
   * @param {RTCIceServer[]} iceServers
   * @param {MediaStream | null} microphone Null: listen only.
   * @param {LineListeners} listeners
   */
  constructor(PeerConnection, iceServers, microphone, listeners) {
    const peer = new PeerConnection({ bundlePolicy: 'max-bundle', iceServers });
    this.#peer = peer;
    const [track] = microphone?.getAudioTracks() ?? [];
    if (track && microphone) this.#sender = peer.addTrack(track, microphone);
    else peer.addTransceiver('audio', { direction: 'recvonly' });
    this.#events = peer.createDataChannel('events');
    this.#urgent = peer.createDataChannel('urgent', { ordered: false, maxRetransmits: 0 });

    const listen = (/** @type {EventTarget} */ target, /** @type {string} */ type, /** @type {(event: any) => void} */ handle) =>
      target.addEventListener(type, (event) => {
        if (!this.#closed) handle(event);
      });
    listen(peer, 'track', ({ track: received, streams }) => {
      const stream = streams[0] ?? new MediaStream([received]);
      this.stream = stream;
      listeners.track(stream);
    });
    listen(peer, 'connectionstatechange', () => listeners.state(peer.connectionState));
    listen(this.#events, 'message', ({ data }) => listeners.message(data, false));
    listen(this.#urgent, 'message', ({ data }) => listeners.message(data, true));
    listen(this.#events, 'close', () => listeners.left());
  }

  get isClosed() {
    return this.#closed;
  }

  get isConnected() {
    return !this.#closed && this.#peer.connectionState === 'connected';
  }

  /**
   * @param {{restart?: boolean}} [options] `restart` looks for a new way to the server; sound and channels go on over it.
   * @returns {Promise<string>} An offer. The server finds us by our checks, so no candidate is waited for.
   */
  async offer({ restart = false } = {}) {
    if (restart) this.#peer.restartIce();
    await this.#peer.setLocalDescription();
    return this.#peer.localDescription?.sdp ?? '';
  }

  /** @param {string} sdp The server's answer. */
  async accept(sdp) {
    await this.#peer.setRemoteDescription({ type: 'answer', sdp });
  }

  /**
   * Settles once: events can be exchanged, or never will be.
   *
   * @param {number} timeoutMs
   * @returns {Promise<void>}
   * @throws {CallError} `ice_failed`; `cancelled` when the line was closed.
   */
  opened(timeoutMs) {
    return new Promise((resolve, reject) => {
      /** @param {CallError | null} error */
      const settle = (error) => {
        clearTimeout(timer);
        this.#whenClosed.delete(onClosed);
        this.#events.removeEventListener('open', onOpen);
        this.#peer.removeEventListener('connectionstatechange', onState);
        if (error) reject(error);
        else resolve();
      };
      const fail = (/** @type {string} */ message) => settle(new CallError('ice_failed', message));
      const onOpen = () => settle(null);
      const onState = () => this.#peer.connectionState === 'failed' && fail('ICE found no way to the server');
      const onClosed = () => settle(new CallError('cancelled', 'the line was closed before it was connected'));
      const timer = setTimeout(() => fail(`no connection within ${timeoutMs / 1000} s`), timeoutMs);
      this.#events.addEventListener('open', onOpen);
      this.#peer.addEventListener('connectionstatechange', onState);
      this.#whenClosed.add(onClosed);
      // What has happened already is not told again.
      if (this.#closed) onClosed();
      else if (this.#events.readyState === 'open') onOpen();
      else onState();
    });
  }

  /**
   * @param {{type: string, [field: string]: unknown}} event
   * @param {{urgently?: boolean}} [options] Over both channels.
   * @returns {boolean} Whether it was sent.
   */
  send(event, { urgently = false } = {}) {
    if (this.#closed || this.#events.readyState !== 'open') return false;
    const text = JSON.stringify(event);
    if (urgently && this.#urgent.readyState === 'open') this.#urgent.send(text);
    this.#events.send(text);
    return true;
  }

  /**
   * Nothing is negotiated anew. A line that is closed needs no track: the next one takes the microphone as it is then.
   *
   * @param {MediaStreamTrack} track Takes the place of the microphone's track.
   */
  async replaceTrack(track) {
    if (this.#closed || !this.#sender) return;
    /** @type {() => void} */
    let onClosed = () => {};
    const closed = new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
      onClosed = resolve;
    });
    this.#whenClosed.add(onClosed); // a browser may never settle it then
    try {
      await Promise.race([this.#sender.replaceTrack(track), closed]);
    } finally {
      this.#whenClosed.delete(onClosed);
    }
  }

  /** @returns {Promise<Map<string, any>>} */
  async stats() {
    return this.#closed ? new Map() : /** @type {any} */ (await this.#peer.getStats());
  }

  /** @returns {number | null} RTP timestamp of the agent's audio that was handed to the speaker last. */
  playoutTimestamp() {
    const receiver = this.#peer.getReceivers().find(({ track }) => track.kind === 'audio');
    return receiver?.getSynchronizationSources?.()[0]?.rtpTimestamp ?? null;
  }

  /** The agent is heard no more, at once. */
  silence() {
    for (const { track } of this.#peer.getReceivers()) track.enabled = false;
  }

  /** May be called twice. */
  close() {
    if (this.#closed) return;
    this.#closed = true;
    this.#peer.close();
    for (const tell of [...this.#whenClosed]) tell();
  }
}
