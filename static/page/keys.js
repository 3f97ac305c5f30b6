import { strings } from './language.js';

/**
 * The microphone by keyboard: M mutes and opens it; Space, as long as it is held, does the opposite of what is:
 * push to mute for who is open, push to talk for who is muted. While the page has not the keyboard a held key mutes.
 * Enter, held, presses once.
 */

/**
 * The click that brings the keyboard back to the page may be one on the button that mutes; it has the say until then.
 */
const CLICK_MS = 500;

/** Where keys have a meaning of their own. */
const TYPING = 'input, textarea, select, [contenteditable]';
const PRESSABLE = `${TYPING}, button, summary, a[href], audio, video, dialog, [role="button"], [role="slider"]`;

/** Which key does what, without a browser. */
export class HeldMute {
  #mute;
  #isMuted;
  /** As it was before the key went down; null while it is up. @type {boolean | null} */
  #before = null;
  /** Whether the key may have come up unseen. */
  #isAway = false;

  /** @param {{isMuted: () => boolean, mute: (muted: boolean) => void}} microphone */
  constructor({ isMuted, mute }) {
    this.#isMuted = isMuted;
    this.#mute = mute;
  }

  get isHeld() {
    return this.#before !== null;
  }

  toggle() {
    if (!this.isHeld) this.#mute(!this.#isMuted());
  }

  hold() {
    this.#isAway = false;
    if (this.isHeld) return;
    this.#before = this.#isMuted();
    this.#mute(!this.#before);
  }

  release() {
    const before = this.#before;
    this.forget();
    if (before !== null) this.#mute(before);
  }

  /** The keyboard belongs to something else now: whoever does not look at the page is not to be heard by accident. */
  leave() {
    if (this.#before === false) this.#isAway = true;
    else this.release();
  }

  /** The page is looked at again. Nobody is to stay muted by a key that came up elsewhere. */
  comeBack() {
    if (this.#isAway) this.release();
  }

  /** Somebody else has muted or opened the microphone. @param {boolean} muted */
  changed(muted) {
    if (muted === this.#before) this.forget();
  }

  /**
   * The call is over. One that is made again by itself finds the microphone as it was before the key went down; who does
   * not look at the page stays muted.
   */
  end() {
    if (this.#isAway) this.forget();
    else this.release();
  }

  /** There is nothing to go back to. */
  forget() {
    this.#before = null;
    this.#isAway = false;
  }
}

/**
 * @param {{key: string, code?: string, ctrlKey?: boolean, metaKey?: boolean, altKey?: boolean, shiftKey?: boolean}} event
 * @param {{matches: (selector: string) => boolean}} inside Whether the key was pressed inside of such an element.
 * @returns {'toggle' | 'hold' | null}
 */
export function meaning({ key, code = '', ctrlKey, metaKey, altKey, shiftKey }, inside) {
  if (ctrlKey || metaKey || altKey) return null;
  // Where a keyboard has no M, the key in its place.
  if (key === 'm' || key === 'M' || (code === 'KeyM' && key > '\u007f')) return inside.matches(TYPING) ? null : 'toggle';
  if (key === ' ' && !shiftKey) return inside.matches(PRESSABLE) ? null : 'hold';
  return null;
}

/**
 * Browsers press a button again with every repeat of a key that is held down, which nobody means.
 *
 * @param {{key: string, repeat?: boolean}} event
 * @param {{matches: (selector: string) => boolean}} inside As for `meaning`.
 */
export function isHeldPress({ key, repeat = false }, inside) {
  return key === 'Enter' && repeat && inside.matches('button, summary, a[href]');
}

export class Keys {
  #conversation;
  #hint;
  #held;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #backTimer;

  /**
   * @param {import('./conversation.js').Conversation} conversation
   * @param {{hint: HTMLElement, buttons: HTMLElement[]}} elements `hint` says what the keys do. `buttons` give up the
   *   focus that a mouse gave them, since Space would press them.
   */
  constructor(conversation, { hint, buttons }) {
    this.#conversation = conversation;
    this.#hint = hint;
    const held = new HeldMute({ isMuted: () => conversation.muted, mute: (muted) => conversation.mute(muted) });
    this.#held = held;
    addEventListener('keydown', (event) => this.#onDown(event));
    addEventListener('keyup', ({ key }) => key === ' ' && held.release());
    addEventListener('blur', () => this.#leave());
    addEventListener('focus', () => this.#comeBack());
    document.addEventListener('visibilitychange', () => (document.hidden ? this.#leave() : this.#comeBack()));
    conversation.on('state', () => {
      if (!conversation.call.isActive) held.end();
      this.#draw();
    });
    conversation.on('muted', (muted) => {
      held.changed(muted);
      this.#draw();
    });
    for (const button of buttons) button.addEventListener('click', ({ detail }) => detail > 0 && button.blur());
  }

  #leave() {
    clearTimeout(this.#backTimer);
    this.#held.leave();
  }

  #comeBack() {
    clearTimeout(this.#backTimer);
    if (!document.hidden && document.hasFocus()) this.#backTimer = setTimeout(() => this.#held.comeBack(), CLICK_MS);
  }

  /** What the keys would do now. */
  #draw() {
    this.#hint.hidden = !this.#conversation.call.isActive;
    if (!this.#held.isHeld) this.#hint.textContent = this.#conversation.muted ? strings.keys.muted : strings.keys.open;
  }

  /** @param {KeyboardEvent} event */
  #onDown(event) {
    const { target } = event;
    const inside = { matches: (/** @type {string} */ selector) => target instanceof Element && target.closest(selector) !== null };
    if (isHeldPress(event, inside)) event.preventDefault();
    if (!this.#conversation.call.isActive) return;
    const does = meaning(event, inside);
    if (does === 'hold') {
      event.preventDefault(); // the page would scroll
      this.#held.hold(); // one that only repeats has come back with the keyboard, still held
    }
    if (does === 'toggle' && !event.repeat) this.#held.toggle();
  }
}
