/**
 * The one place where the page says that something is wrong.
 *
 * @typedef {import('../strings/en.js').Message} Message
 * @typedef {'error' | 'warning' | 'server' | 'sound' | 'microphone' | 'redial' | 'setup'} Kind `server` goes away when the
 *   server is well, `sound` on a gesture, `microphone` when that is back, `redial` with the next call, `setup` when another
 *   is chosen; `warning`, `sound` and `microphone` with the call that they are about.
 */
export class Notices {
  #box;
  #heir;
  /** Whether the button of what is shown was pressed: whoever did wants an answer, even the same again. */
  #isPressed = false;

  /**
   * @param {HTMLElement} box A live region: what is put there is read out.
   * @param {() => HTMLElement} heir Who gets the keyboard when the button that had it goes away.
   */
  constructor(box, heir) {
    this.#box = box;
    this.#heir = heir;
  }

  /** @param {import('./conversation.js').Conversation} conversation */
  follow(conversation) {
    conversation.on('state', () => {
      if (!conversation.call.isActive) this.hide('warning', 'sound', 'microphone');
    });
  }

  get isShown() {
    return this.#box.hasChildNodes();
  }

  /** Of what is shown; '' where nothing is. @returns {Kind | ''} */
  get kind() {
    return this.isShown ? /** @type {Kind} */ (this.#box.dataset.kind) : '';
  }

  /**
   * @param {Message} message
   * @param {Kind} kind
   * @param {{label: string, press: () => void}} [remedy] A button.
   */
  show({ title, text }, kind, remedy) {
    const box = this.#box;
    const isSame = box.dataset.kind === kind && box.textContent?.startsWith(title + text);
    if (isSame && !this.#isPressed) return; // don't read it out again
    this.#isPressed = false;
    const head = document.createElement('strong');
    head.textContent = title;
    const body = document.createElement('p');
    body.textContent = text;
    box.dataset.kind = kind;
    if (!remedy) return this.#put(head, body);
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = remedy.label;
    button.addEventListener('click', () => {
      this.#isPressed = true;
      remedy.press();
    });
    this.#put(head, body, button);
  }

  /** @param {Kind[]} kinds Only what is of these kinds; without any, whatever is there. */
  hide(...kinds) {
    if (!kinds.length || kinds.includes(/** @type {Kind} */ (this.#box.dataset.kind))) this.#put();
  }

  /** @param {HTMLElement[]} content */
  #put(...content) {
    const hadKeyboard = this.#box.querySelector(':focus-visible') !== null;
    this.#box.replaceChildren(...content);
    if (hadKeyboard) (this.#box.querySelector('button') ?? this.#heir()).focus({ preventScroll: true });
  }
}
