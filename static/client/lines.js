import { CallError } from './errors.js';
import { Line } from './line.js';

/**
 * The lines of one conversation, one at a time: the first, its restarts, and those that take the conversation over.
 *
 * @typedef {object} Parts
 * @property {import('./api.js').Api} api
 * @property {typeof globalThis.RTCPeerConnection} PeerConnection
 * @property {RTCIceServer[]} iceServers The page's own, beside those of the server.
 * @property {() => MediaStream | null} microphone As it is now.
 * @property {() => number} lastEvent Number of the last event that was seen.
 *
 * @typedef {object} LinesListeners
 * @property {(data: unknown, urgent: boolean) => void} message
 * @property {(stream: MediaStream) => void} track The agent's voice; another one on another line.
 * @property {(state: RTCPeerConnectionState) => void} state
 * @property {() => void} left The server closed the line.
 *
 * @typedef {Pick<import('./api.js').SessionRequest, 'persona' | 'voice' | 'seed' | 'sampling'>} Prompt
 */

/** The server gives ICE 10 s and DTLS 5 s; whoever is not connected by then cannot reach its UDP port. */
const CONNECT_TIMEOUT_MS = 12_000;
/** A conversation that goes on: rather try again than wait. */
const RESUME_TIMEOUT_MS = 6_000;
/** Credentials for TURN are made for a short life. */
const ICE_SERVERS_FRESH_MS = 300_000;

export class Lines {
  /** @type {Line | null} */
  current = null;
  /** @type {string | null} */
  sessionId = null;
  /** @type {string | null} */
  resumeToken = null;
  #parts;
  #listeners;
  #closed = false;
  #isOver = false;
  /** A new one for the conversation, on its way. @type {Line | null} */
  #next = null;
  /** Whether the server has answered the last attempt that is not (yet) the line in use: it may be there already. */
  #answered = false;
  /** @type {RTCIceServer[]} */
  #serversIceServers = [];
  #iceServersAtMs = -Infinity;

  /**
   * @param {Parts} parts
   * @param {LinesListeners} listeners
   */
  constructor(parts, listeners) {
    this.#parts = parts;
    this.#listeners = listeners;
  }

  /**
   * The first line of this page: a new conversation, or one that goes on if `resumeToken` is set.
   *
   * @param {Prompt} prompt
   */
  async open(prompt) {
    await this.#refreshIceServers();
    this.#throwIfClosed();
    const line = this.#newLine();
    this.current = line;
    await this.#dial(line, prompt, CONNECT_TIMEOUT_MS);
  }

  /**
   * Whether a new line of ours may have taken the place of the one that there is, which the server says over the old one:
   * it is on its way, or the last of them was given up here after the server had answered it.
   */
  get mayBeReplaced() {
    return this.#next !== null || this.#answered;
  }

  /**
   * A new way to the server for the line that there is (an ICE restart). Sound and channels go on over it.
   *
   * @param {number} timeoutMs For the server's answer.
   */
  async restart(timeoutMs) {
    const line = this.current;
    if (!line || !this.sessionId) throw new CallError('ice_failed', 'there is no line to be restarted');
    const sdp = await line.offer({ restart: true });
    await line.accept((await this.#parts.api.renegotiate(this.sessionId, sdp, timeoutMs)).sdp);
  }

  /** A new line for the conversation. The old one is in use until the new one is there. */
  async resume() {
    await this.#refreshIceServers();
    this.#throwIfClosed();
    const before = this.current;
    const line = this.#newLine();
    this.#next = line;
    try {
      await this.#dial(line, {}, RESUME_TIMEOUT_MS);
    } catch (error) {
      line.close();
      throw error;
    } finally {
      this.#next = null;
    }
    this.current = line;
    before?.close();
    const [track] = this.#parts.microphone()?.getAudioTracks() ?? [];
    if (track) await line.replaceTrack(track); // it may have become another one meanwhile
    if (line.stream) this.#listeners.track(line.stream);
  }

  /**
   * May be called twice.
   *
   * @param {{isOver?: boolean}} [options] Whether the conversation is, too; else what an answer on its way brings is left to
   *   the next page.
   */
  close({ isOver = true } = {}) {
    this.#closed = true;
    this.#isOver = isOver;
    this.current?.close();
    this.#next?.close();
  }

  #newLine() {
    const iceServers = [...this.#serversIceServers, ...this.#parts.iceServers];
    /** @type {Line} */
    const line = new Line(this.#parts.PeerConnection, iceServers, this.#parts.microphone(), {
      message: this.#listeners.message,
      track: (stream) => line === this.current && this.#listeners.track(stream),
      state: (state) => line === this.current && this.#listeners.state(state),
      left: () => line === this.current && this.#listeners.left(),
    });
    return line;
  }

  /**
   * Offer, answer, and wait until events can be exchanged.
   *
   * @param {Line} line
   * @param {Prompt} prompt
   * @param {number} timeoutMs For the answer, and for the connection after it.
   */
  async #dial(line, prompt, timeoutMs) {
    const { api, lastEvent } = this.#parts;
    const sdp = await line.offer();
    const resume = this.resumeToken === null ? {} : { resume: this.resumeToken, last_event: lastEvent() };
    this.#answered = false;
    const answer = await api.createSession({ sdp, type: 'offer', ...prompt, ...resume }, timeoutMs);
    this.#answered = true;
    if (this.#isOver && answer.id !== this.sessionId) await api.deleteSession(answer.id); // nobody else knows of it
    this.#throwIfClosed();
    this.sessionId = answer.id;
    this.resumeToken = answer.resume_token ?? this.resumeToken;
    this.#keepIceServers(answer.ice_servers);
    const opened = line.opened(timeoutMs);
    opened.catch(() => {}); // it is awaited below, and may fail before
    await line.accept(answer.sdp);
    await opened;
    this.#throwIfClosed();
    this.#answered = false;
  }

  #throwIfClosed() {
    if (this.#closed) throw new CallError('cancelled', 'the call was closed before it was connected');
  }

  /** The server's TURN servers and credentials, if it has any. */
  async #refreshIceServers() {
    if (performance.now() - this.#iceServersAtMs < ICE_SERVERS_FRESH_MS) return;
    this.#keepIceServers(await this.#parts.api.iceServers());
  }

  /** @param {RTCIceServer[] | undefined} iceServers */
  #keepIceServers(iceServers) {
    if (!iceServers) return;
    this.#serversIceServers = iceServers;
    this.#iceServersAtMs = performance.now();
  }
}
