import * as messages from './messages.js';

/**
 * The recordings that a person makes, up to ten. One that was not saved stays through the calls after it; where there are
 * too many a saved one leaves first.
 *
 * Who presses Record wants a call recorded, from here or, between two calls, the next one from its beginning; until the
 * button is pressed again, or the call ends as somebody wanted. So a call that breaks and is made again is recorded on.
 *
 * @typedef {{blob: Blob, name: string, isSaved: boolean}} Kept
 */

/** Streams change with every reconnection and every other microphone. */
const STREAMS_EVERY_MS = 250;
/** An hour of sound is 60 MB. */
export const MAX_KEPT = 10;

export class Recordings {
  /** The oldest first. @type {Kept[]} */
  kept = [];
  /** Whether a call is to be recorded. */
  isWanted = false;
  #conversation;
  #newRecorder;
  #name;
  #onChange;
  /** @type {Pick<import('./recorder.js').Recorder, 'hear' | 'stop'> | null} */
  #recorder = null;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  #timer;
  /** Whether the call that is being recorded has come to be: of one that has not, there is nothing to keep. */
  #hasCall = false;
  /** How many files are being finished. */
  #finishing = 0;

  /**
   * @param {import('./conversation.js').Conversation} conversation
   * @param {object} parts
   * @param {() => Pick<import('./recorder.js').Recorder, 'hear' | 'stop'>} parts.newRecorder
   * @param {(suffix: string) => string} parts.name Of a file, now.
   * @param {() => void} parts.onChange
   */
  constructor(conversation, { newRecorder, name, onChange }) {
    this.#conversation = conversation;
    this.#newRecorder = newRecorder;
    this.#name = name;
    this.#onChange = onChange;
    conversation.on('client', () => this.isWanted && this.#start()); // inside the gesture that starts the call
    conversation.on('state', () => this.#follow());
    conversation.on('began', () => this.#forgetSaved());
    conversation.on('ended', (reason) => {
      if (messages.farewell(reason).expected) this.isWanted = false;
      this.#onChange();
    });
  }

  /** Whether a call is being recorded. */
  get isRunning() {
    return this.#recorder !== null;
  }

  /** Whether sound would be lost with the page. */
  get isUnsaved() {
    return (this.isRunning && this.#hasCall) || this.#finishing > 0 || this.kept.some(({ isSaved }) => !isSaved);
  }

  /** To be called inside a gesture. */
  toggle() {
    this.isWanted = !this.isWanted;
    if (!this.isWanted) this.#stop();
    else if (this.#conversation.call.isActive) this.#start();
    this.#onChange();
  }

  /** @param {Kept} recording */
  saved(recording) {
    recording.isSaved = true;
    this.#onChange();
  }

  #start() {
    if (this.#recorder) return;
    try {
      this.#recorder = this.#newRecorder();
    } catch (error) {
      this.isWanted = false; // the call goes on without
      console.warn('the browser does not record:', error);
      this.#conversation.emit('problem', { code: 'not_recorded' });
      return this.#onChange();
    }
    this.#hasCall = false;
    this.#timer = setInterval(() => this.#hear(), STREAMS_EVERY_MS);
    this.#follow();
  }

  #follow() {
    const { phase, isActive } = this.#conversation.call;
    if (phase === 'preparing' || phase === 'live') this.#hasCall = true;
    if (!isActive) return this.#stop();
    this.#hear();
    this.#onChange();
  }

  #hear() {
    const { client } = this.#conversation;
    this.#recorder?.hear({ you: client?.microphone ?? null, agent: client?.stream ?? null });
  }

  async #stop() {
    const recorder = this.#recorder;
    if (!recorder) return;
    const hasCall = this.#hasCall;
    this.#recorder = null;
    clearInterval(this.#timer);
    this.#finishing += Number(hasCall);
    this.#onChange();
    const { blob, suffix } = await recorder.stop();
    if (!hasCall) return;
    this.#finishing -= 1;
    if (blob.size) this.#keep(blob, suffix);
    this.#onChange();
  }

  /**
   * @param {Blob} blob
   * @param {string} suffix
   */
  #keep(blob, suffix) {
    const isTaken = (/** @type {string} */ name) => this.kept.some((other) => other.name === name);
    let name = this.#name(suffix);
    for (let number = 2; isTaken(name); number++) name = this.#name(`-${number}${suffix}`);
    this.kept.push({ blob, name, isSaved: false });
    if (this.kept.length <= MAX_KEPT) return;
    const spare = this.kept.findIndex(({ isSaved }) => isSaved);
    this.kept.splice(Math.max(spare, 0), 1);
  }

  /** There is another call now. */
  #forgetSaved() {
    this.kept = this.kept.filter(({ isSaved }) => !isSaved);
    this.#onChange();
  }
}
