import { Chronicle } from './chronicle.js';
import { fileName, toJson, toText, toWebVtt } from './exports.js';
import { strings } from './language.js';
import { Recorder } from './recorder.js';

/**
 * What a person can take along: a recording of both sides, and the words in three forms.
 *
 * @typedef {object} KeepingElements
 * @property {HTMLButtonElement} record
 * @property {HTMLElement} recordLabel
 * @property {HTMLDetailsElement} menu
 * @property {HTMLElement} files Where the buttons of the menu go.
 */

const STREAMS_EVERY_MS = 250;

export class KeepingView {
  #conversation;
  #elements;
  #about;
  #chronicle = new Chronicle();
  /** @type {Recorder | null} */
  #recorder = null;
  /** @type {import('./recorder.js').Recording | null} */
  #recording = null;
  #beganAt = new Date();

  /**
   * @param {KeepingElements} elements
   * @param {import('./conversation.js').Conversation} conversation
   * @param {() => object} about What the call was, for the JSON file.
   */
  constructor(elements, conversation, about) {
    this.#elements = elements;
    this.#conversation = conversation;
    this.#about = about;
    this.#chronicle.follow(conversation);
    elements.record.hidden = !Recorder.isPossible;
    elements.record.addEventListener('click', () => this.#toggle());
    for (const [name, make] of this.#forms()) this.#addButton(name, make);
    conversation.on('client', () => {
      this.#beganAt = new Date();
      if (!this.#recorder) this.#recording = null; // the recording of the call before
      this.#draw();
    });
    conversation.on('turn', () => this.#draw());
    conversation.on('state', () => {
      const { phase } = conversation.call;
      if (phase === 'ended' || phase === 'failed') this.#stop();
      this.#draw();
    });
    elements.menu.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || !elements.menu.open) return;
      elements.menu.open = false;
      elements.menu.querySelector('summary')?.focus();
    });
    document.addEventListener('pointerdown', ({ target }) => {
      if (!(target instanceof Node && elements.menu.contains(target))) elements.menu.open = false;
    });
    this.#draw();
  }

  /** @returns {[keyof typeof strings.keeping.files, () => {blob: Blob, suffix: string} | null][]} */
  #forms() {
    const names = () => ({ you: strings.page.you, agent: strings.page.agent, interrupted: strings.transcript.interrupted });
    const text = (/** @type {string} */ body, /** @type {string} */ type, /** @type {string} */ suffix) => ({
      blob: new Blob([body], { type: `${type};charset=utf-8` }),
      suffix,
    });
    return [
      ['recording', () => this.#recording],
      ['text', () => text(toText(this.#chronicle.passages(), names()), 'text/plain', '.txt')],
      ['webvtt', () => text(toWebVtt(this.#chronicle.passages(), names()), 'text/vtt', '.vtt')],
      ['json', () => text(this.#json(), 'application/json', '.json')],
    ];
  }

  #json() {
    const { happenings, left } = this.#chronicle;
    const about = { ...this.#about(), began_at: this.#beganAt.toISOString(), session_id: this.#conversation.client?.sessionId };
    return toJson({ about, passages: this.#chronicle.passages(), happenings, left });
  }

  /**
   * @param {keyof typeof strings.keeping.files} name
   * @param {() => {blob: Blob, suffix: string} | null} make
   */
  #addButton(name, make) {
    const button = document.createElement('button');
    button.type = 'button';
    button.dataset.testid = `keep-${name}`;
    button.textContent = strings.keeping.files[name];
    button.addEventListener('click', () => {
      const file = make();
      if (file) save(file.blob, fileName(this.#beganAt, file.suffix));
      this.#elements.menu.open = false;
    });
    const item = document.createElement('li');
    item.append(button);
    this.#elements.files.append(item);
  }

  #toggle() {
    if (this.#recorder) this.#stop();
    else this.#start();
  }

  #start() {
    const recorder = new Recorder();
    this.#recorder = recorder;
    this.#recording = null;
    // Streams change with every reconnection and every other microphone.
    const hear = () => {
      if (recorder !== this.#recorder) return clearInterval(timer);
      const { client } = this.#conversation;
      recorder.hear({ you: client?.microphone ?? null, agent: client?.stream ?? null });
    };
    const timer = setInterval(hear, STREAMS_EVERY_MS);
    hear();
    this.#draw();
  }

  async #stop() {
    const recorder = this.#recorder;
    if (!recorder) return;
    this.#recorder = null;
    this.#draw();
    this.#recording = await recorder.stop();
    this.#draw();
  }

  #draw() {
    const { record, recordLabel, menu, files } = this.#elements;
    record.setAttribute('aria-pressed', String(this.#recorder !== null));
    recordLabel.textContent = this.#recorder ? strings.keeping.stop : strings.keeping.record;
    /** @type {HTMLElement} */ (files.firstElementChild).hidden = this.#recording === null;
    menu.hidden = this.#chronicle.isEmpty && this.#recording === null;
  }
}

/**
 * @param {Blob} blob
 * @param {string} name
 */
function save(blob, name) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
