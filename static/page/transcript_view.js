import { strings } from './language.js';
import { clock, spokeFor } from './messages.js';

/**
 * @typedef {import('../client/transcript.js').Turn} Turn
 */

const NEAR_END_PX = 80;

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
      this.#follows = list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_END_PX;
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
    if (this.#follows) this.#list.scrollTop = this.#list.scrollHeight;
  }

  /** @param {Turn} turn */
  #append(turn) {
    const item = element('li', `turn ${turn.side}`);
    const head = element('p', 'turn-head');
    head.append(element('span', 'turn-who', who(turn)));
    head.append(element('span', 'turn-when', clock(turn.startedMs - this.#beganMs)));
    item.append(head, element('p', 'turn-words'));
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
    drawWords(words, turn);
    item.classList.toggle('final', turn.final);
    const note = turn.interrupted
      ? strings.transcript.interrupted
      : turn.words.length || turn.side === 'agent'
        ? ''
        : turn.spokeMs === null
          ? '…'
          : spokeFor(turn.spokeMs);
    words.hidden = turn.words.length === 0;
    item.classList.toggle('speaking', note === '…');
    setNote(item, note);
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
 * Words on the screen stay the same elements, so that only a new word fades in.
 *
 * @param {HTMLElement} paragraph
 * @param {Turn} turn
 */
function drawWords(paragraph, turn) {
  turn.words.forEach((word, index) => {
    let span = paragraph.children[index];
    if (!span) {
      if (index) paragraph.append(' ');
      span = element('span', 'word');
      paragraph.append(span);
    }
    if (span.textContent !== word.text) span.textContent = word.text;
    span.classList.toggle('cut', word.cut);
  });
  while (paragraph.children.length > turn.words.length) {
    paragraph.lastElementChild?.remove();
  }
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
