import { CallError } from './errors.js';
import { microphoneError } from './microphone.js';

/**
 * The microphone of a call, through all that happens to one: a phone call takes it for a while, a headset is pulled
 * out, a page in the background loses it and does not get it back by itself.
 *
 * Where the page gave a function, a microphone that is gone is asked for again: at once, when the page is seen again,
 * when a device comes or goes, and when the page says so (in a gesture, where a browser wants one). Another microphone
 * can take the place of the one there is at any time, without a break: the one before is heard until it is there.
 *
 * @typedef {MediaStream | null | (() => Promise<MediaStream>)} MicrophoneSource A stream stays its owner's. What the
 *   function gets belongs to the call, and is stopped at its end.
 *
 * @typedef {'live' | 'interrupted' | 'lost'} MicrophoneState
 *   interrupted: the agent hears silence, and the browser may give the microphone back. lost: it will not by itself.
 *
 * @typedef {object} CaptureListeners
 * @property {(state: MicrophoneState, code: string) => void} state `code`: why it could not be had again, or ''.
 * @property {(track: MediaStreamTrack) => Promise<void>} track Another track takes the place of the one before.
 */

/** A browser gives the microphone back within this time of the page being seen again, or not at all. */
export const RETURN_MS = 1_000;

export class Capture {
  /** @type {MediaStream | null} */
  stream = null;
  /** @type {MicrophoneState} */
  #state = 'live';
  #source;
  #listeners;
  #muted = false;
  #closed = false;
  /** @type {Promise<boolean> | null} */
  #reopening = null;
  /** What is asked of the browser at present: one thing at a time. @type {Promise<void> | null} */
  #turn = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #returning;
  #watched = new AbortController();

  /**
   * @param {MicrophoneSource} source
   * @param {CaptureListeners} listeners
   */
  constructor(source, listeners) {
    this.#source = source;
    this.#listeners = listeners;
  }

  /**
   * Get the microphone.
   *
   * @throws {CallError} What the page's function was rejected with, as `microphone_denied` and its like.
   */
  open() {
    return this.#inTurn(() => this.#open());
  }

  async #open() {
    const stream = typeof this.#source === 'function' ? await ask(this.#source) : this.#source;
    if (this.#closed) {
      if (typeof this.#source === 'function') stopTracks(stream);
      return;
    }
    this.#adopt(stream);
  }

  /** @param {boolean} muted */
  mute(muted) {
    this.#muted = muted;
    for (const track of this.stream?.getAudioTracks() ?? []) track.enabled = !muted;
  }

  /**
   * Ask for the microphone again and put it in the place of the one that is gone.
   *
   * @returns {Promise<boolean>} Whether it is there.
   */
  reopen() {
    if (typeof this.#source !== 'function' || this.#closed) return Promise.resolve(this.#state === 'live');
    this.#reopening ??= this.#inTurn(() => this.#getAgain()).finally(() => {
      this.#reopening = null;
    });
    return this.#reopening;
  }

  /**
   * Another microphone takes the place of the one there is. Of several, the one asked for last is heard at last.
   *
   * @param {Exclude<MicrophoneSource, null>} source Used from now on, also when this microphone is lost.
   * @throws {CallError} The one before stays. `no_microphone`: the call has none, or is over.
   */
  use(source) {
    return this.#inTurn(async () => {
      if (this.#closed || !this.stream) throw new CallError('no_microphone', 'the call has no microphone to be exchanged');
      const stream = typeof source === 'function' ? await ask(source) : source;
      if (this.#closed) {
        if (typeof source === 'function') stopTracks(stream);
        throw new CallError('no_microphone', 'the call is over');
      }
      await this.#exchange(stream, source);
      clearTimeout(this.#returning);
      this.#state = 'live';
      this.#listeners.state('live', '');
    });
  }

  /** The page is seen again, or a device came or went: if the microphone is gone, now it may be had. */
  check() {
    clearTimeout(this.#returning);
    if (this.#state === 'lost') this.reopen();
    else if (this.#state === 'interrupted') {
      this.#returning = setTimeout(() => this.#state === 'interrupted' && this.reopen(), RETURN_MS);
    }
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#returning);
    this.#watched.abort();
    if (typeof this.#source === 'function') stopTracks(this.stream);
  }

  async #getAgain() {
    const source = this.#source;
    if (typeof source !== 'function' || this.#closed) return false;
    try {
      const stream = await ask(source);
      if (this.#closed) {
        stopTracks(stream);
        return false;
      }
      await this.#exchange(stream, source);
      this.#become('live');
      return true;
    } catch (error) {
      if (!this.#closed) this.#listeners.state(this.#state, error instanceof CallError ? error.code : 'microphone_failed');
      return false;
    }
  }

  /**
   * Of the two one is left: the other, or the one before where the other cannot be sent.
   *
   * @param {MediaStream} stream
   * @param {MicrophoneSource} source Where it is from.
   */
  async #exchange(stream, source) {
    const before = { stream: this.stream, source: this.#source };
    this.#take(stream, source);
    const [track] = stream.getAudioTracks();
    let gone = before;
    try {
      if (track) await this.#listeners.track(track);
    } catch (cause) {
      if (!this.#closed) {
        gone = { stream, source };
        this.#take(before.stream, before.source);
      }
      throw new CallError('microphone_failed', 'the call did not take the microphone', { cause });
    } finally {
      if (typeof gone.source === 'function' && gone.stream !== this.stream) stopTracks(gone.stream);
    }
  }

  /**
   * At once where nothing else is going on: a browser may want to see the gesture.
   *
   * @template T
   * @param {() => Promise<T>} job
   * @returns {Promise<T>}
   */
  #inTurn(job) {
    const done = this.#turn ? this.#turn.then(job) : job();
    const over = () => {
      if (this.#turn === turn) this.#turn = null;
    };
    const turn = done.then(over, over);
    this.#turn = turn;
    return done;
  }

  /**
   * @param {MediaStream | null} stream
   * @param {MicrophoneSource} source
   */
  #take(stream, source) {
    this.#source = source;
    this.#adopt(stream);
  }

  /** @param {MediaStream | null} stream */
  #adopt(stream) {
    this.#watched.abort();
    this.#watched = new AbortController();
    this.stream = stream;
    this.mute(this.#muted);
    const [track] = stream?.getAudioTracks() ?? [];
    if (!track) return;
    const on = (/** @type {string} */ type, /** @type {() => void} */ handle) =>
      track.addEventListener(type, handle, { signal: this.#watched.signal });
    on('mute', () => this.#become('interrupted'));
    on('unmute', () => this.#become('live'));
    on('ended', () => {
      this.#become('lost');
      this.reopen();
    });
  }

  /** @param {MicrophoneState} state */
  #become(state) {
    if (state === this.#state || this.#closed) return;
    this.#state = state;
    this.#listeners.state(state, '');
  }
}

/** @param {() => Promise<MediaStream>} source */
async function ask(source) {
  try {
    return await source();
  } catch (cause) {
    throw cause instanceof CallError ? cause : microphoneError(cause);
  }
}

/** @param {MediaStream | null} stream */
function stopTracks(stream) {
  for (const track of stream?.getTracks() ?? []) track.stop();
}
