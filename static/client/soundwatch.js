/**
 * Notices that no sound comes any more, long before the browser does: the server sends a packet every 20 ms, in
 * silence too. It watches only while the page can be seen: the clocks of hidden pages are held back.
 */

const EVERY_MS = 500;
export const SILENT_MS = 2_000;
/** A reading that comes so much too late comes after a sleep, about which it says nothing. */
const SLEPT_MS = 3 * EVERY_MS;

export class SoundWatch {
  #packets;
  #isVisible;
  #onSilence;
  /** @type {ReturnType<typeof setInterval> | null} */
  #timer = null;
  #count = 0;
  #readAtMs = 0;
  #movedAtMs = 0;

  /**
   * @param {object} parts
   * @param {() => Promise<number>} parts.packets How many were received so far.
   * @param {() => boolean} parts.isVisible
   * @param {() => void} parts.onSilence Again every 2 s, as long as it lasts.
   */
  constructor({ packets, isVisible, onSilence }) {
    this.#packets = packets;
    this.#isVisible = isVisible;
    this.#onSilence = onSilence;
  }

  start() {
    this.#movedAtMs = this.#readAtMs = performance.now();
    this.#timer ??= setInterval(() => this.#look(), EVERY_MS);
  }

  stop() {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  async #look() {
    const count = await this.#packets();
    const now = performance.now();
    const slept = now - this.#readAtMs > SLEPT_MS;
    this.#readAtMs = now;
    if (count !== this.#count || slept || !this.#isVisible()) {
      this.#count = count;
      this.#movedAtMs = now;
    } else if (this.#timer !== null && now - this.#movedAtMs >= SILENT_MS) {
      this.#movedAtMs = now;
      this.#onSilence();
    }
  }
}
