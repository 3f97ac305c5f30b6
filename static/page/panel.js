/** One column, as in the style sheets. */
const NARROW = '(max-width: 39.99rem), (max-width: 59.99rem) and (min-height: 34.01rem)';

/**
 * Where one has to scroll, what was said comes before the set-up of the next call: for the eye, and so for the keyboard.
 */
export class Panel {
  #elements;
  #narrow = matchMedia(NARROW);

  /**
   * @param {{panel: HTMLElement, settings: HTMLElement, words: HTMLElement}} elements `words` holds what was said.
   * @param {import('./conversation.js').Conversation} conversation
   */
  constructor(elements, conversation) {
    this.#elements = elements;
    conversation.on('turn', () => this.#arrange());
    conversation.on('state', () => this.#arrange());
    this.#narrow.addEventListener('change', () => this.#arrange());
  }

  #arrange() {
    const { panel, settings, words } = this.#elements;
    const isLast = this.#narrow.matches && words.hasChildNodes();
    if (isLast === (panel.lastElementChild === settings)) return;
    const focused = settings.contains(document.activeElement) ? document.activeElement : null;
    if (isLast) panel.append(settings);
    else panel.prepend(settings);
    if (focused instanceof HTMLElement) focused.focus({ preventScroll: true }); // what is moved loses it
  }
}
