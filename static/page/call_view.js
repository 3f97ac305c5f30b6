import { strings } from './language.js';
import * as messages from './messages.js';

/**
 * The state of the call in words, the clock, and the two buttons.
 *
 * @typedef {object} CallElements
 * @property {HTMLElement} status
 * @property {HTMLElement} hint
 * @property {HTMLProgressElement} prefill How much of its prompt the agent has read.
 * @property {HTMLButtonElement} call
 * @property {HTMLElement} callLabel
 * @property {HTMLButtonElement} mute
 * @property {HTMLElement} muteLabel
 * @property {HTMLElement} timer
 */

const CLOCK_EVERY_MS = 500;
/** A server that is there has answered by then. */
const SLOW_MS = 4_000;

export class CallView {
  /** Whether there is a call of an earlier page to go on with. */
  canContinue = false;
  #conversation;
  #elements;
  /** What the agent is waiting for, in words; '' where the state says it all. */
  #progress = '';
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #slowTimer;

  /**
   * @param {import('./conversation.js').Conversation} conversation
   * @param {CallElements} elements
   * @param {{start: () => void}} actions
   */
  constructor(conversation, elements, { start }) {
    this.#conversation = conversation;
    this.#elements = elements;
    elements.call.addEventListener('click', ({ detail }) => {
      if (detail > 1) return; // a double click means one thing
      if (conversation.call.isActive) conversation.end();
      else start();
    });
    elements.mute.addEventListener('click', () => conversation.mute(!conversation.muted));
    conversation.on('state', () => this.draw());
    conversation.on('muted', () => this.#drawMute());
    conversation.on('queued', (position) => this.progress(strings.queued(position)));
    conversation.on('prefill', ({ done, total }) => {
      const isUnderWay = done > 0 && done < total;
      this.progress(isUnderWay ? messages.preparing({ done, total }) : '');
      elements.prefill.hidden = !isUnderWay;
      if (isUnderWay) Object.assign(elements.prefill, { max: total, value: done });
    });
    setInterval(() => {
      const { durationMs } = conversation.call;
      elements.timer.textContent = durationMs === null ? '' : messages.clock(durationMs);
    }, CLOCK_EVERY_MS);
  }

  /** @param {string} text What the agent is waiting for. */
  progress(text) {
    this.#progress = text;
    this.#drawHint();
  }

  /** @param {string} text Until the state changes. */
  hint(text) {
    this.#elements.hint.textContent = text;
  }

  draw() {
    const { state, phase, isActive } = this.#conversation.call;
    document.body.dataset.state = state;
    document.body.dataset.phase = phase;
    document.body.classList.toggle('in-call', isActive);
    const isOver = phase !== 'preparing' && phase !== 'reconnecting';
    if (isOver || this.#progress === strings.stillTrying) this.#progress = '';
    clearTimeout(this.#slowTimer);
    if (phase === 'connecting') this.#slowTimer = setTimeout(() => this.progress(strings.stillTrying), SLOW_MS);
    const { call, callLabel, mute, prefill } = this.#elements;
    if (phase !== 'preparing') prefill.hidden = true;
    call.dataset.state = isActive ? 'end' : 'start';
    callLabel.textContent = isActive ? strings.end : this.canContinue ? strings.continue : strings.start;
    mute.hidden = !isActive;
    this.#drawMute();
  }

  #drawMute() {
    const { muted, call } = this.#conversation;
    this.#elements.mute.setAttribute('aria-pressed', String(muted));
    this.#elements.muteLabel.textContent = muted ? strings.unmute : strings.mute;
    document.body.dataset.muted = String(muted && call.isActive);
    this.#elements.status.textContent = this.#message().title;
    this.#drawHint();
  }

  #drawHint() {
    const { isActive } = this.#conversation.call;
    this.hint(isActive && this.#conversation.muted ? strings.muted.text : this.#progress || this.#message().text);
  }

  #message() {
    const { call, muted } = this.#conversation;
    return messages.doing(call.state, { isMuted: muted, canContinue: this.canContinue });
  }
}
