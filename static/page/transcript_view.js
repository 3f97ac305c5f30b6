import { strings } from './language.js';
import { clock, spokeFor } from './messages.js';

/**
 * @typedef {import('../client/transcript.js').Turn} Turn
 */

const NEAR_END_PX = 80;
/** A word that is followed by none settles after this. */
const LIT_MS = 900;

/** Draws the turns of a transcript, and reads the finished ones out to screen readers. */
export class TranscriptView {
  #list;
  #announcer;
  #empty;
  /** @type {Map<number, HTMLElement>} */
  #items = new Map();
  #beganMs = 0;
  /** Is the end in sight? Then it stays so, whatever is added or however the page is turned. */
  #follows = true;
  /** Of the list, when its end was last brought into sight. */
  #size = '';
  /** The word that is being heard. @type {Element | null} */
  #lit = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #settle;

  /**
   * @param {object} elements
   * @param {HTMLElement} elements.list
   * @param {HTMLElement} elements.announcer A polite live region that nobody sees.
   * @param {HTMLElement} elements.empty Shown while there is no turn.
   * @param {import('./conversation.js').Conversation} conversation
   */
  constructor({ list, announcer, empty }, conversation) {
    this.#list = list;
    this.#announcer = announcer;
    this.#empty = empty;
    list.addEventListener('scroll', () => {
      if (list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_END_PX) this.#follows = true;
      else if (this.#size === size(list)) this.#follows = false; // else it is the list that has moved, not the person
    });
    conversation.on('turn', (turn, change) => this.update(turn, change));
    conversation.on('state', () => {
      const { phase, durationMs } = conversation.call;
      if (phase === 'live') this.began(performance.now() - (durationMs ?? 0));
    });
    new ResizeObserver(() => this.#follow()).observe(list);
  }

  /** Turns carry the time since then. @param {number} nowMs */
  began(nowMs) {
    this.#beganMs = nowMs;
  }

  /** A new call begins. */
  clear() {
    this.#list.replaceChildren();
    this.#announcer.replaceChildren();
    this.#items.clear();
    this.#follows = true;
    this.#empty.hidden = false;
  }

  /**
   * @param {Turn} turn
   * @param {'changed' | 'final' | 'removed'} change
   */
  update(turn, change) {
    if (change === 'removed') {
      this.#items.get(turn.id)?.remove();
      this.#items.delete(turn.id);
    } else {
      this.#draw(this.#items.get(turn.id) ?? this.#append(turn), turn);
      if (change === 'final') this.#announce(turn);
    }
    this.#empty.hidden = this.#items.size > 0;
    this.#follow();
  }

  #follow() {
    this.#size = size(this.#list);
    if (this.#follows) this.#list.scrollTop = this.#list.scrollHeight;
  }

  /** @param {Turn} turn */
  #append(turn) {
    const item = element('li', `turn ${turn.side}`);
    const head = element('p', 'turn-head');
    head.append(element('span', 'turn-who', who(turn)));
    head.append(element('span', 'turn-when', clock(turn.startedMs - this.#beganMs)));
    const words = element('p', 'turn-words');
    words.dir = 'auto'; // the language of the words need not be that of the page
    item.append(head, words);
    this.#list.append(item);
    this.#items.set(turn.id, item);
    return item;
  }

  /**
   * @param {HTMLElement} item
   * @param {Turn} turn
   */
  #draw(item, turn) {
    const words = /** @type {HTMLElement} */ (item.querySelector('.turn-words'));
    this.#light(drawWords(words, turn));
    item.classList.toggle('final', turn.final);
    const note = turn.interrupted
      ? strings.transcript.interrupted
      : turn.words.length || turn.side === 'agent'
        ? ''
        : turn.spokeMs === null
          ? '…'
          : spokeFor(turn.spokeMs);
    words.hidden = turn.words.length + turn.coming.length === 0;
    item.classList.toggle('speaking', note === '…');
    setNote(item, note);
  }

  /** @param {Element | null} word It has just been heard. */
  #light(word) {
    if (!word) return;
    const settle = () => this.#lit?.classList.remove('lit');
    if (word !== this.#lit) settle();
    word.classList.add('lit');
    this.#lit = word;
    clearTimeout(this.#settle);
    this.#settle = setTimeout(settle, LIT_MS);
  }

  /** @param {Turn} turn */
  #announce(turn) {
    if (!turn.words.length) return;
    const text = turn.words.map((word) => word.text).join(' ');
    const note = turn.interrupted ? ` (${strings.transcript.interrupted})` : '';
    this.#announcer.append(element('p', '', strings.transcript.said(who(turn), text + note)));
    if (this.#announcer.childElementCount > 3) this.#announcer.firstElementChild?.remove();
  }
}

/** @param {HTMLElement} list */
function size({ clientWidth, clientHeight }) {
  return `${clientWidth}x${clientHeight}`;
}

/** @param {Turn} turn */
function who({ side }) {
  return side === 'agent' ? strings.page.agent : strings.page.you;
}

/**
 * Words on the screen stay the same elements: first dim and hidden from screen readers (`coming`), then a `word`.
 *
 * @param {HTMLElement} paragraph
 * @param {Turn} turn
 * @returns {Element | null} The agent's word that has just been heard, if there is one.
 */
function drawWords(paragraph, turn) {
  const heardBefore = paragraph.querySelectorAll('.word');
  const textBefore = heardBefore[turn.words.length - 1]?.textContent;
  [...turn.words.map(({ text }) => text), ...turn.coming].forEach((text, index) => {
    let span = paragraph.children[index];
    if (!span) {
      if (index) paragraph.append(' ');
      span = element('span', '');
      paragraph.append(span);
    }
    if (span.textContent !== text) span.textContent = text;
    const isHeard = index < turn.words.length;
    span.classList.toggle('word', isHeard);
    span.classList.toggle('coming', !isHeard);
    span.classList.toggle('cut', isHeard && turn.words[index].cut);
    if (isHeard) span.removeAttribute('aria-hidden');
    else span.setAttribute('aria-hidden', 'true');
    const rest = index === turn.words.length - 1 ? turn.rest : '';
    if (rest) span.setAttribute('data-rest', rest);
    else span.removeAttribute('data-rest');
  });
  while (paragraph.children.length > turn.words.length + turn.coming.length) {
    paragraph.lastElementChild?.remove();
    if (paragraph.lastChild?.nodeType === Node.TEXT_NODE) paragraph.lastChild.remove();
  }
  const last = paragraph.children[turn.words.length - 1] ?? null;
  if (turn.side !== 'agent' || turn.final || last === null) return null;
  return heardBefore.length < turn.words.length || last.textContent !== textBefore ? last : null;
}

/**
 * @param {HTMLElement} item
 * @param {string} text
 */
function setNote(item, text) {
  let note = item.querySelector('.turn-note');
  if (!text) return note?.remove();
  if (!note) {
    note = element('p', 'turn-note');
    item.append(note);
  }
  if (note.textContent !== text) note.textContent = text;
}

/**
 * @param {string} tag
 * @param {string} className
 * @param {string} [text]
 */
function element(tag, className, text = '') {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}
