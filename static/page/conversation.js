import { Call } from './call.js';
import { RtcClient } from '../client.js';
import { CallError } from '../client/errors.js';
import { Emitter } from './emitter.js';
import { LatencyEstimator } from './latency.js';
import { Level } from './levels.js';
import { openMicrophone } from '../client/microphone.js';
import { MicrophoneLevel } from './microphone_level.js';
import { Playhead } from '../client/playhead.js';
import { Transcript } from '../client/transcript.js';

/**
 * @typedef {{code: string, message?: string, hint?: string, retryAfterS?: number | null}} Problem
 *
 * @typedef {object} ConversationEvents What the parts of the page can hear about.
 * @property {[state: import('./call.js').CallState]} state
 * @property {[client: RtcClient]} client A call begins, with this client.
 * @property {[]} fresh What is kept of the calls before makes way for what comes. A call that is made again keeps it.
 * @property {[atMs: number]} began Times of what is kept count from then: when the agent could first be talked to.
 * @property {[event: any]} server Every event of the server, as it came.
 * @property {[turn: import('../client/transcript.js').Turn, change: import('../client/transcript.js').TurnChange]} turn
 * @property {[left: number]} left So many turns of the call were said before those that are told, on earlier pages.
 * @property {[position: number]} queued
 * @property {[prefill: {done: number, total: number}]} prefill
 * @property {[levels: {user: number, agent: number, nowMs: number}]} levels Linear, 0..1; ten times a second.
 * @property {[stats: import('../client/stats.js').CallStats]} stats Once a second.
 * @property {[estimate: import('./latency.js').LatencyEstimate]} latency
 * @property {[seconds: number, reason: string]} ending The server will end the call soon.
 * @property {[reason: string]} ended
 * @property {[state: import('../client/capture.js').MicrophoneState, code: string]} microphone It is held, gone, or back.
 * @property {[muted: boolean]} muted
 * @property {[problem: Problem]} problem
 */

const TICK_MS = 50;
const LEVELS_EVERY_TICKS = 2;
const ACK_EVERY_MS = 1_000;
/** A word begins somewhere in its frame of 80 ms: taken at the middle, it is wrong by half a frame at most. */
const WORD_AFTER_MS = 40;

/**
 * One person's call from the gesture to the end, without a single element of the page: microphone, client, playback,
 * transcript, levels and latency, kept together by one timer.
 *
 * @extends {Emitter<ConversationEvents>}
 */
export class Conversation extends Emitter {
  userLevel = new Level();
  agentLevel = new Level();
  /** @type {RtcClient | null} */
  client = null;
  call = new Call();
  transcript;
  #audio;
  #newClient;
  #askMicrophone;
  #playhead = new Playhead();
  #latency = new LatencyEstimator();
  /** @type {MicrophoneLevel | null} */
  #microphoneLevel = null;
  #muted = false;
  /** Whether `connect` of the client is on its way: it reports what becomes of it. */
  #connecting = false;
  /** @type {ReturnType<typeof setInterval> | null} */
  #timer = null;
  /** Between two ticks, for a word that is due. @type {ReturnType<typeof setTimeout> | undefined} */
  #wordTimer;
  #ticks = 0;
  #ackAtMs = 0;
  /** Ties frames of the engine to RTP time. @type {{frame: number, rtpTimestamp: number} | null} */
  #anchor = null;
  #heardMs = 0;
  /** When `began` was told to be, since `fresh`. @type {number | null} */
  #beganMs = null;
  /** @type {import('./call.js').CallState} */
  #told = 'ready';

  /**
   * @param {object} parts
   * @param {HTMLAudioElement} parts.audio
   * @param {() => RtcClient} parts.newClient
   * @param {() => Promise<MediaStream>} [parts.microphone] Asks the person for it.
   */
  constructor({ audio, newClient, microphone = openMicrophone }) {
    super();
    this.#audio = audio;
    this.#newClient = newClient;
    this.#askMicrophone = microphone;
    this.transcript = this.#newTranscript();
    audio.addEventListener('pause', () => this.resumeSound()); // phones pause it for a call or a changed headset
  }

  get muted() {
    return this.#muted;
  }

  /**
   * Start a call. To be called inside a gesture. Never rejects: what goes wrong is told to `problem`.
   *
   * @param {import('../client.js').CallOptions} options
   */
  async start(options) {
    if (!this.call.enter('asking', performance.now())) return;
    this.#refresh({ muted: false });
    await this.#connect(options);
  }

  /**
   * Make a call that broke again, for a person who has pressed nothing: the microphone stays muted if it was, and the words
   * of the call before stay. Never rejects.
   *
   * @param {import('../client.js').CallOptions} options
   */
  async startAgain(options) {
    if (!this.call.enter('asking', performance.now())) return;
    this.#reset();
    await this.#connect(options);
  }

  /**
   * Go on with a call that an earlier page has left. Never rejects. Without a gesture, the browser must be willing to
   * give the microphone and to play sound without one.
   *
   * @param {import('./handover.js').HandedOver} left
   */
  async resume({ resumption, turns, left = 0, durationMs, beganAgoMs = durationMs, muted }) {
    const now = performance.now();
    if (!this.call.resume(durationMs, now)) return;
    this.#refresh({ muted });
    this.#begin(now - beganAgoMs);
    if (left) this.emit('left', left);
    this.transcript.restore(turns, now, left);
    await this.#connect({ resume: resumption });
  }

  /** What another page needs to go on with this call; null where there is none. @returns {import('./handover.js').HandedOver | null} */
  handOver() {
    const resumption = this.client?.resumption ?? null;
    const { durationMs } = this.call;
    if (resumption === null || durationMs === null) return null;
    const now = performance.now();
    const turns = this.transcript.kept(now);
    const left = this.transcript.left + this.transcript.turns.length - turns.length;
    const beganAgoMs = this.#beganMs === null ? durationMs : now - this.#beganMs;
    return { resumption, turns, left, durationMs, beganAgoMs, muted: this.#muted };
  }

  /** @param {{atOnce?: boolean}} [options] */
  end({ atOnce = false } = {}) {
    if (!this.call.isActive) return;
    this.client?.close({ atOnce });
    this.#stop('ended', 'closed');
  }

  /** @param {boolean} muted */
  mute(muted) {
    this.#muted = muted;
    this.client?.mute(muted);
    if (muted) this.userLevel.reset();
    this.emit('muted', muted);
  }

  /**
   * Another microphone was chosen: it takes the place of the one in the call.
   *
   * @throws {CallError} The one before stays.
   */
  async changeMicrophone() {
    await this.client?.useMicrophone(this.#askMicrophone);
  }

  /** The microphone was taken from the call: ask for it again, best in a gesture. @returns {Promise<boolean>} Whether it is there. */
  async reopenMicrophone() {
    return (await this.client?.reopenMicrophone()) ?? false;
  }

  /**
   * The browser may have stopped the sound, or may allow it now: a tab came back, another stream is there, a gesture was made.
   *
   * @returns {Promise<boolean>} False where the browser holds it back.
   */
  async resumeSound() {
    if (!this.call.isActive || !this.#audio.srcObject) return true;
    try {
      await this.#audio.play();
    } catch (error) {
      // AbortError: another stream took this one's place, which is how every call begins.
      if (!(error instanceof DOMException && error.name === 'NotAllowedError')) return true;
      if (this.client?.stream) this.emit('problem', { code: 'sound_blocked' });
      return false;
    }
    return true;
  }

  #newTranscript() {
    return new Transcript((turn, change) => this.emit('turn', turn, change), { wordAfterMs: WORD_AFTER_MS });
  }

  /** @param {{muted: boolean}} microphone */
  #refresh({ muted }) {
    this.#muted = muted;
    this.transcript = this.#newTranscript();
    this.#beganMs = null;
    this.#reset();
    this.emit('fresh');
  }

  /** @param {number} atMs */
  #begin(atMs) {
    if (this.#beganMs !== null) return;
    this.#beganMs = atMs;
    this.emit('began', atMs);
  }

  #reset() {
    this.#playhead = new Playhead();
    this.#latency = new LatencyEstimator();
    this.#anchor = null;
    this.#heardMs = 0;
    this.userLevel.reset();
    this.agentLevel.reset();
  }

  /** @param {import('../client.js').CallOptions} options */
  async #connect(options) {
    this.#tell();
    // Inside the gesture, so that the element may sound later although the stream is not there yet.
    this.#audio.srcObject = new MediaStream();
    this.resumeSound();
    const client = this.#newClient();
    this.client = client;
    this.emit('client', client);
    this.#listen(client);
    client.mute(this.#muted);
    const microphone = async () => {
      const stream = await this.#askMicrophone();
      if (client === this.client && this.call.enter('connecting', performance.now())) this.#tell();
      return stream;
    };
    this.#connecting = true;
    try {
      await client.connect({ ...options, microphone });
      if (client === this.client) this.#connecting = false;
    } catch (error) {
      if (client === this.client) this.#fail(error);
    }
  }

  /** @param {RtcClient} client */
  #listen(client) {
    const on = (/** @type {string} */ type, /** @type {(detail: any) => void} */ handle) =>
      client.addEventListener(type, (event) => {
        if (client === this.client) handle(/** @type {CustomEvent} */ (event).detail);
      });
    const now = () => performance.now();
    on('track', ({ stream }) => {
      this.#playhead = new Playhead(); // another connection, another clock
      this.#anchor = null;
      this.#audio.srcObject = stream;
      this.resumeSound();
    });
    on('sound', () => this.resumeSound());
    on('microphone', ({ state, code }) => {
      this.#closeMicrophoneLevel(); // it may be another microphone now
      this.emit('microphone', state, code);
    });
    on('state', ({ state, reason }) => this.#onClientState(state, reason));
    on('message', (event) => this.emit('server', event));
    on('session.queued', ({ position }) => this.emit('queued', position));
    on('session.prefill', (prefill) => this.emit('prefill', prefill));
    on('session.ending', ({ in_s, reason }) => this.emit('ending', in_s, reason));
    on('session.stats', (stats) => this.#latency.serverStats(stats));
    on('response.delta', (delta) => this.#onDelta(delta));
    on('response.cancelled', (event) => {
      this.transcript.cancelled(event, this.#playhead, now());
      this.call.interrupted(now());
    });
    on('barge_in', () => {
      this.transcript.bargeIn(now());
      this.call.interrupted(now());
    });
    on('input.speech_started', (event) => {
      this.call.user(true);
      this.transcript.userStarted(event, now());
    });
    on('input.speech_stopped', (event) => {
      this.call.user(false);
      this.transcript.userStopped(event, now());
    });
    on('input.transcript', (event) => this.transcript.userWords(event, now()));
    on('error', (problem) => console.warn('the server refused an event:', problem.code, problem.message));
  }

  /**
   * @param {import('../client.js').ClientState} state
   * @param {string} reason
   */
  #onClientState(state, reason) {
    const now = performance.now();
    if (state === 'preparing' || state === 'live') {
      this.call.enter(state, now);
      if (state === 'live') this.#begin(now);
      this.#timer ??= setInterval(() => this.#tick(), TICK_MS);
    } else if (state === 'degraded') {
      this.call.enter('reconnecting', now);
    } else if (state === 'ended' && !this.#connecting) {
      this.#stop('ended', reason); // a call that never came to be is reported by `connect`
    }
    this.#tell();
  }

  /** @param {{data: string, frame: number, rtp_timestamp?: number | null}} delta */
  #onDelta(delta) {
    this.transcript.agentDelta(delta, performance.now());
    if (typeof delta.rtp_timestamp === 'number') this.#anchor = { frame: delta.frame, rtpTimestamp: delta.rtp_timestamp };
    this.#hearWords();
  }

  /** Words light up with their sound, not with the next tick. */
  #hearWords() {
    clearTimeout(this.#wordTimer);
    if (this.#timer === null) return;
    const now = performance.now();
    this.#playhead.update(this.client?.playoutTimestamp(), now);
    const dueMs = this.transcript.hear(this.#playhead, now);
    if (dueMs !== null && dueMs < TICK_MS) this.#wordTimer = setTimeout(() => this.#hearWords(), Math.max(1, dueMs));
  }

  #tick() {
    const now = performance.now();
    this.#playhead.update(this.client?.playoutTimestamp(), now);
    this.call.tick(this.agentLevel.isSpeaking(now), now);
    this.transcript.tick(this.#playhead, this.agentLevel.quietMs(now), now);
    this.#hearWords();
    if (this.#ticks++ % LEVELS_EVERY_TICKS === 0) this.#measure(this.#ticks % 20 === 1);
    if (now - this.#ackAtMs >= ACK_EVERY_MS) this.#acknowledge(now);
    this.#tell();
  }

  /** @param {boolean} withFigures Once a second. */
  async #measure(withFigures) {
    const client = this.client;
    const stats = await client?.stats().catch(() => null);
    if (!stats || client !== this.client || !this.call.isActive) return;
    const now = performance.now();
    const user = this.#muted ? 0 : (stats.microphoneLevel ?? this.#ownMicrophoneLevel());
    this.userLevel.measure(user, now);
    this.agentLevel.measure(stats.agentLevel, now);
    this.emit('levels', { user, agent: stats.agentLevel, nowMs: now });
    if (!withFigures) return;
    const estimate = this.#latency.estimate(stats);
    if (estimate) this.emit('latency', estimate); // first: it is one of the figures of this second
    this.emit('stats', stats);
  }

  #ownMicrophoneLevel() {
    const microphone = this.client?.microphone;
    if (!microphone) return 0;
    this.#microphoneLevel ??= new MicrophoneLevel(microphone);
    return this.#microphoneLevel.read();
  }

  #closeMicrophoneLevel() {
    this.#microphoneLevel?.close();
    this.#microphoneLevel = null;
  }

  /** Tell the server how much of the agent's audio was heard. @param {number} now */
  #acknowledge(now) {
    this.#ackAtMs = now;
    const untilAnchorMs = this.#anchor && this.#playhead.msUntil(this.#anchor.rtpTimestamp, now);
    if (!this.#anchor || untilAnchorMs === null) return;
    const heardMs = Math.round(this.#anchor.frame * 80 - untilAnchorMs);
    if (heardMs <= this.#heardMs) return;
    this.#heardMs = heardMs;
    this.client?.send({ type: 'playback.ack', cursor: heardMs });
  }

  /** @param {unknown} error */
  #fail(error) {
    const problem = error instanceof CallError ? error : new CallError('failed', String(error));
    if (problem.code === 'cancelled') this.#stop('ended', 'closed');
    else if (this.#stop('failed', problem.code)) this.emit('problem', problem);
  }

  /**
   * @param {'ended' | 'failed'} phase
   * @param {string} reason
   * @returns {boolean} False where it is over already.
   */
  #stop(phase, reason) {
    this.#connecting = false;
    if (!this.call.enter(phase, performance.now())) return false;
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    clearTimeout(this.#wordTimer);
    this.#closeMicrophoneLevel();
    this.#audio.srcObject = null;
    this.userLevel.reset();
    this.agentLevel.reset();
    this.transcript.end();
    this.#tell();
    if (phase === 'ended') this.emit('ended', reason);
    return true;
  }

  #tell() {
    const { state } = this.call;
    if (state === this.#told) return;
    this.#told = state;
    this.emit('state', state);
  }
}
