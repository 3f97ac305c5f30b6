import { CallError } from '../client/errors.js';

/**
 * What a person wants to know before a call: does the microphone hear, does the network let a call through, does the
 * speaker sound? Runs the three side by side; the speaker's answer comes from the person.
 *
 * @typedef {'microphone' | 'network' | 'speaker'} Check
 * @typedef {'running' | 'asking' | 'good' | 'unsure' | 'bad'} Verdict `asking`: the person is to say.
 * @typedef {{verdict: Verdict, code: string, network?: import('../client/network_test.js').NetworkResult}} Finding
 *   `code`: of an error, or `heard`, `silent`, `unmeasured`, `direct`, `relayed`, `not_heard`; '' while it runs.
 */

const LEVEL_EVERY_MS = 50;
/** So long a microphone may stay silent until that is said; it is listened to on. */
const SILENT_AFTER_MS = 6_000;
/** About -45 dB: louder than a quiet room, softer than anybody who speaks. */
const HEARD_LEVEL = 0.0056;
const HEARD_FOR_MS = 150;

export class SelfTest {
  #parts;
  #onFinding;
  #over = new AbortController();

  /**
   * @param {object} parts
   * @param {() => Promise<MediaStream>} parts.openMicrophone
   * @param {(stream: MediaStream) => {read: () => number, close: () => void, canMeasure: boolean}} parts.measure
   * @param {(signal: AbortSignal) => Promise<import('../client/network_test.js').NetworkResult>} parts.testNetwork
   * @param {() => Promise<void>} parts.playChime
   * @param {(check: Check, finding: Finding) => void} onFinding
   */
  constructor(parts, onFinding) {
    this.#parts = parts;
    this.#onFinding = onFinding;
  }

  /** Never rejects. Inside a gesture. */
  async start() {
    for (const check of /** @type {Check[]} */ (['microphone', 'network', 'speaker'])) this.#tell(check, 'running', '');
    await Promise.all([this.#microphone(), this.#network(), this.playChime()]);
  }

  /** Once more, if you like. */
  async playChime() {
    try {
      await this.#parts.playChime();
      this.#tell('speaker', 'asking', '');
    } catch (error) {
      this.#tell('speaker', 'bad', error instanceof Error ? error.name : 'failed');
    }
  }

  /** @param {boolean} heard What the person says. */
  answer(heard) {
    this.#tell('speaker', heard ? 'good' : 'bad', heard ? 'heard' : 'not_heard');
  }

  /** Gives microphone and connection back. */
  stop() {
    this.#over.abort();
  }

  async #microphone() {
    let stream;
    try {
      stream = await this.#parts.openMicrophone();
    } catch (error) {
      return this.#tell('microphone', 'bad', error instanceof CallError ? error.code : 'microphone_failed');
    }
    const meter = this.#parts.measure(stream);
    try {
      await this.#listen(meter);
    } finally {
      meter.close();
      for (const track of stream.getTracks()) track.stop();
    }
  }

  /** @param {{read: () => number, canMeasure: boolean}} meter */
  async #listen(meter) {
    let heardMs = 0;
    for (let elapsedMs = 0; !this.#over.signal.aborted; elapsedMs += LEVEL_EVERY_MS) {
      if (meter.read() >= HEARD_LEVEL) heardMs += LEVEL_EVERY_MS;
      if (heardMs >= HEARD_FOR_MS) return this.#tell('microphone', 'good', 'heard');
      if (elapsedMs === SILENT_AFTER_MS) this.#tell('microphone', 'unsure', meter.canMeasure ? 'silent' : 'unmeasured');
      await new Promise((resolve) => setTimeout(resolve, LEVEL_EVERY_MS));
    }
  }

  async #network() {
    try {
      const network = await this.#parts.testNetwork(this.#over.signal);
      const { isRelayed } = network;
      if (!this.#over.signal.aborted) {
        this.#onFinding('network', { verdict: 'good', code: isRelayed ? 'relayed' : 'direct', network });
      }
    } catch (error) {
      this.#tell('network', 'bad', error instanceof CallError ? error.code : 'connect_failed');
    }
  }

  /**
   * @param {Check} check
   * @param {Verdict} verdict
   * @param {string} code
   */
  #tell(check, verdict, code) {
    if (!this.#over.signal.aborted) this.#onFinding(check, { verdict, code });
  }
}
