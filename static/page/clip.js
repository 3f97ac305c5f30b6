/**
 * A short sound of the page's own, over the chosen speaker, by an element of its own: the call's is not touched.
 */
export class Clip {
  #audio;
  #speaker;

  /**
   * @param {object} parts
   * @param {() => string} parts.speaker Id of the chosen one; '' for the default.
   * @param {() => void} [parts.onEnd] It was played to its end.
   * @param {HTMLAudioElement} [parts.audio]
   */
  constructor({ speaker, onEnd = () => {}, audio = new Audio() }) {
    this.#audio = audio;
    this.#speaker = speaker;
    audio.addEventListener('ended', onEnd);
  }

  /** In the gesture, for a sound that has to be fetched first: iOS lets an element sound only if it was played in one. */
  unlock() {
    this.#audio.play().catch(() => {}); // there is nothing to be played yet
  }

  /**
   * @param {Blob} sound
   * @returns {Promise<void>} It sounds, or was stopped before it did.
   */
  async play(sound) {
    this.stop();
    const url = URL.createObjectURL(sound);
    this.#audio.src = url;
    await this.#useSpeaker();
    if (this.#audio.src === url) await this.#audio.play();
  }

  /** May be called at any time. */
  stop() {
    this.#audio.pause();
    if (!this.#audio.src) return;
    URL.revokeObjectURL(this.#audio.src);
    this.#audio.removeAttribute('src');
    this.#audio.load(); // or `unlock` would play what it has still
  }

  /** Where the chosen one is gone the default sounds, as in a call. */
  async #useSpeaker() {
    const audio = this.#audio;
    const id = this.#speaker();
    if (!('setSinkId' in audio) || audio.sinkId === id) return;
    await audio.setSinkId(id).catch(() => audio.setSinkId('')).catch(() => {});
  }
}
