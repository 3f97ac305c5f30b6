/**
 * The microphone's level where `getStats` does not tell it (Firefox). Only the meter depends on it: a browser that
 * keeps its audio context suspended shows an empty meter, and the call is as good as any.
 */
export class MicrophoneLevel {
  /** @type {AudioContext | null} */
  #context = null;
  /** @type {AnalyserNode | null} */
  #analyser = null;
  #samples = new Float32Array(1024);

  /** @param {MediaStream} microphone */
  constructor(microphone) {
    if (typeof AudioContext === 'undefined') return;
    this.#context = new AudioContext();
    this.#analyser = this.#context.createAnalyser();
    this.#analyser.fftSize = this.#samples.length;
    this.#context.createMediaStreamSource(microphone).connect(this.#analyser);
    this.#context.resume().catch(() => {});
  }

  /** Whether the browser lets the page listen at all. */
  get canMeasure() {
    return this.#context?.state === 'running';
  }

  /** @returns {number} Peak of the last 20 ms or so, 0..1. */
  read() {
    this.#analyser?.getFloatTimeDomainData(this.#samples);
    return this.#samples.reduce((peak, sample) => Math.max(peak, Math.abs(sample)), 0);
  }

  close() {
    this.#context?.close().catch(() => {});
    this.#context = this.#analyser = null;
    this.#samples.fill(0);
  }
}
