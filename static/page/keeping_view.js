import { Chronicle } from './chronicle.js';
import { fileName, toJson, toText, toWebVtt } from './exports.js';
import { strings } from './language.js';
import { LeaveGuard } from './leave_guard.js';
import { Recorder } from './recorder.js';
import { Recordings } from './recordings.js';

/**
 * What a person can take along: a recording of both sides, and the words in three forms.
 *
 * @typedef {object} KeepingElements
 * @property {HTMLButtonElement} record
 * @property {HTMLElement} recordLabel
 * @property {HTMLDetailsElement} menu
 * @property {HTMLElement} files Where the buttons of the menu go.
 */

export class KeepingView {
  #conversation;
  #elements;
  #about;
  #chronicle = new Chronicle();
  #recordings;
  #guard = new LeaveGuard();
  /** Of the recordings, as they are drawn. @type {HTMLElement[]} */
  #recordingItems = [];
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
    this.#recordings = new Recordings(conversation, {
      newRecorder: () => new Recorder(),
      name: (suffix) => fileName(this.#beganAt, suffix),
      onChange: () => this.#draw(),
    });
    elements.record.addEventListener('click', () => this.#recordings.toggle());
    for (const [name, make] of this.#forms()) {
      elements.files.append(item(`keep-${name}`, strings.keeping.files[name], () => {
        const { body, type, suffix } = make();
        this.#save(new Blob([body], { type: `${type};charset=utf-8` }), fileName(this.#beganAt, suffix));
      }));
    }
    conversation.on('fresh', () => {
      this.#beganAt = new Date();
      this.#draw();
    });
    conversation.on('began', (atMs) => (this.#beganAt = new Date(Date.now() - (performance.now() - atMs))));
    conversation.on('turn', () => this.#draw());
    conversation.on('state', () => this.#draw());
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

  /** @returns {[keyof typeof strings.keeping.files, () => {body: string, type: string, suffix: string}][]} */
  #forms() {
    const names = () => ({ you: strings.page.you, agent: strings.page.agent, interrupted: strings.transcript.interrupted });
    const note = () => (this.#chronicle.turnsLeft ? strings.keeping.leftOut(this.#chronicle.turnsLeft) : '');
    const passages = () => this.#chronicle.passages();
    return [
      ['text', () => ({ body: toText(passages(), names(), note()), type: 'text/plain', suffix: '.txt' })],
      ['webvtt', () => ({ body: toWebVtt(passages(), names(), note()), type: 'text/vtt', suffix: '.vtt' })],
      ['json', () => ({ body: this.#json(), type: 'application/json', suffix: '.json' })],
    ];
  }

  #json() {
    const { happenings, left, turnsLeft } = this.#chronicle;
    const about = { ...this.#about(), began_at: this.#beganAt.toISOString(), session_id: this.#conversation.client?.sessionId };
    return toJson({ about, passages: this.#chronicle.passages(), happenings, left, turnsLeft });
  }

  /**
   * @param {Blob} blob
   * @param {string} name
   */
  #save(blob, name) {
    save(blob, name);
    this.#elements.menu.open = false;
  }

  #draw() {
    const { record, recordLabel, menu } = this.#elements;
    const { kept, isWanted, isRunning, isUnsaved } = this.#recordings;
    const label = isRunning ? strings.keeping.stop : isWanted ? strings.keeping.wanted : strings.keeping.record;
    record.setAttribute('aria-pressed', String(isWanted));
    record.classList.toggle('waiting', isWanted && !isRunning);
    record.title = isWanted && !isRunning ? strings.keeping.wantedAbout : '';
    if (recordLabel.textContent !== label) recordLabel.textContent = label;
    this.#guard.isNeeded = isUnsaved;
    this.#drawRecordings(kept);
    menu.hidden = this.#chronicle.isEmpty && kept.length === 0;
  }

  /** @param {readonly import('./recordings.js').Kept[]} kept */
  #drawRecordings(kept) {
    const names = kept.map(({ name }) => name).join('\n');
    if (this.#recordingItems.map(({ dataset }) => dataset.name).join('\n') === names) return;
    for (const drawn of this.#recordingItems) drawn.remove();
    this.#recordingItems = kept.map((recording, index) => {
      const label = kept.length > 1 ? strings.keeping.recordingOf(index + 1) : strings.keeping.recording;
      const made = item('keep-recording', label, () => {
        this.#save(recording.blob, recording.name);
        this.#recordings.saved(recording);
      });
      made.dataset.name = recording.name;
      return made;
    });
    this.#elements.files.prepend(...this.#recordingItems);
  }
}

/**
 * @param {string} testId
 * @param {string} label
 * @param {() => void} press
 */
function item(testId, label, press) {
  const button = document.createElement('button');
  button.type = 'button';
  button.dataset.testid = testId;
  button.textContent = label;
  button.addEventListener('click', press);
  const made = document.createElement('li');
  made.append(button);
  return made;
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
