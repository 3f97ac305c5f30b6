/**
 * The one place where the page says that something is wrong.
 *
 * @typedef {import('../strings/en.js').Message} Message
 * @typedef {'error' | 'warning' | 'server' | 'sound' | 'microphone' | 'redial'} Kind `server` goes away when the server is well,
 *   `sound` on a gesture, `microphone` when that is back, `redial` with the next call.
 */
export class Notices {
  #box;

  /** @param {HTMLElement} box A live region: what is put there is read out. */
  constructor(box) {
    this.#box = box;
  }

  get isShown() {
    return this.#box.hasChildNodes();
  }

  /**
   * @param {Message} message
   * @param {Kind} kind
   * @param {{label: string, press: () => void}} [remedy] A button.
   */
  show({ title, text }, kind, remedy) {
    const box = this.#box;
    if (box.dataset.kind === kind && box.textContent?.startsWith(title + text)) return; // don't read it out again
    const head = document.createElement('strong');
    head.textContent = title;
    const body = document.createElement('p');
    body.textContent = text;
    box.dataset.kind = kind;
    box.replaceChildren(head, body);
    if (!remedy) return;
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = remedy.label;
    button.addEventListener('click', remedy.press);
    box.append(button);
  }

  /** @param {Kind} [kind] Only what is of this kind; without one, whatever is there. */
  hide(kind) {
    if (!kind || this.#box.dataset.kind === kind) this.#box.replaceChildren();
  }
}
