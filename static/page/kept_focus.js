/**
 * Whoever works the page by keyboard keeps a place on it. What has the focus may be hidden, disabled or folded away, by a
 * call that begins or ends say; the focus would fall to the page itself then, where keys mean something else.
 *
 * A mouse does not need a place, and Space would press what it is given (keys.js).
 */
export class KeptFocus {
  #heir;
  #page;
  /** What the keyboard is on, or was on when that went away. @type {Element | null} */
  #place = null;

  /**
   * @param {() => HTMLElement} heir Who gets the focus, where no summary is there to unfold the element again.
   * @param {Document} [page]
   */
  constructor(heir, page = document) {
    this.#heir = heir;
    this.#page = page;
    page.addEventListener('focusin', ({ target }) => {
      const element = /** @type {Element} */ (target);
      this.#place = element.matches(':focus-visible') ? element : null;
    });
    page.addEventListener('focusout', ({ target }) => {
      // Some browsers take the focus from what is hidden, some leave it there; from anything else a person has taken it.
      if (!isGone(/** @type {Element} */ (target))) this.#place = null;
    });
    const observer = new MutationObserver(() => this.#look());
    observer.observe(page.body, { subtree: true, attributes: true, attributeFilter: ['hidden', 'disabled', 'open'] });
  }

  #look() {
    const place = this.#place;
    const { activeElement, body } = this.#page;
    const isElsewhere = activeElement !== null && activeElement !== body && activeElement !== place;
    if (!place || isElsewhere || !isGone(place)) return;
    if (place.closest('dialog')) return; // it gives the focus back to whoever had it
    /** @type {HTMLElement | null | undefined} */
    const summary = place.closest('details:not([open])')?.querySelector('summary');
    const heir = summary && !isGone(summary) ? summary : this.#heir();
    if (!isGone(heir)) heir.focus({ preventScroll: true });
  }
}

/** @param {Element} element */
function isGone(element) {
  return element.matches(':disabled') || element.checkVisibility?.() === false;
}
