import { EndInSight } from './end_in_sight.js';
import { strings } from './language.js';
import { clock, spokeFor } from './messages.js';

/**
 * @typedef {import('../client/transcript.js').Turn} Turn
 */

/** A word that is followed by none settles after this. */
const LIT_MS = 900;

/** Draws the turns of a transcript, and reads the finished ones out to screen readers. */
export class TranscriptView {
  #list;
  #announcer;
  #empty;
  /** @type {Map<number, HTMLElement>} */
  #items = new Map();
  /** Turns carry the time since then. */
  #beganMs = 0;
  #end;
  /** How many turns are not shown any more, and the line that says so. */
  #left = 0;
  #leftItem = element('li', 'turns-left');
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
    this.#end = new EndInSight(list);
    conversation.on('fresh', () => this.#clear());
    conversation.on('began', (atMs) => (this.#beganMs = atMs));
    conversation.on('left', (turns) => this.#tellLeft(turns));
    conversation.on('turn', (turn, change) => this.update(turn, change));
  }

  #clear() {
    this.#list.replaceChildren();
    this.#announcer.replaceChildren();
    this.#items.clear();
    this.#left = 0;
    this.#end.restart();
    this.#empty.hidden = false;
  }

  /**
   * @param {Turn} turn
   * @param {import('../client/transcript.js').TurnChange} change
   */
  update(turn, change) {
    if (change === 'removed' || change === 'left') {
      this.#items.get(turn.id)?.remove();
      this.#items.delete(turn.id);
      if (change === 'left') this.#tellLeft(this.#left + 1);
    } else {
      this.#draw(this.#items.get(turn.id) ?? this.#append(turn), turn);
      if (change === 'final') this.#announce(turn);
    }
    this.#empty.hidden = this.#items.size > 0;
    this.#end.follow();
  }

  /** @param {number} turns */
  #tellLeft(turns) {
    this.#left = turns;
    this.#leftItem.textContent = strings.transcript.left(turns);
    if (!this.#leftItem.isConnected) this.#list.prepend(this.#leftItem);
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
