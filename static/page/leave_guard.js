/**
 * The browser asks before the page goes away, as long as something would be lost with it. Only so long: a page that listens
 * for that is not kept by browsers for the way back.
 */
export class LeaveGuard {
  #page;
  #ask = (/** @type {Event} */ event) => event.preventDefault();

  /** @param {EventTarget} [page] The window, or a test's. */
  constructor(page = window) {
    this.#page = page;
  }

  /** @param {boolean} needed */
  set isNeeded(needed) {
    if (needed) this.#page.addEventListener('beforeunload', this.#ask);
    else this.#page.removeEventListener('beforeunload', this.#ask);
  }
}
