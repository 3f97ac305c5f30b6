import { testNetwork } from '../client/network_test.js';
import { chime } from './chime.js';
import { Clip } from './clip.js';
import { strings } from './language.js';
import * as messages from './messages.js';
import { MicrophoneLevel } from './microphone_level.js';
import { SelfTest } from './selftest.js';

/**
 * @typedef {import('./selftest.js').Check} Check
 * @typedef {import('./selftest.js').Finding} Finding
 *
 * @typedef {object} SelfTestElements
 * @property {HTMLButtonElement} open
 * @property {HTMLDialogElement} dialog
 * @property {HTMLElement} list
 * @property {HTMLButtonElement} close
 */

/** @type {Check[]} */
const CHECKS = ['microphone', 'network', 'speaker'];

/** The dialog with the three checks. Closing it gives the microphone back. */
export class SelfTestView {
  #elements;
  #parts;
  /** @type {Map<Check, {item: HTMLElement, text: HTMLElement}>} */
  #rows = new Map();
  /** @type {HTMLElement} */
  #answers;
  /** @type {SelfTest | null} */
  #test = null;
  #clip;

  /**
   * @param {SelfTestElements} elements
   * @param {object} parts
   * @param {import('../client/api.js').Api} parts.api
   * @param {() => Promise<MediaStream>} parts.openMicrophone
   * @param {() => string} parts.speaker Id of the chosen one; '' for the default.
   * @param {import('./conversation.js').Conversation} parts.conversation
   */
  constructor(elements, parts) {
    this.#elements = elements;
    this.#parts = parts;
    this.#clip = new Clip({ speaker: parts.speaker });
    for (const check of CHECKS) this.#addRow(check);
    this.#answers = this.#makeAnswers();
    elements.open.addEventListener('click', () => this.#start());
    elements.close.addEventListener('click', () => elements.dialog.close());
    elements.dialog.addEventListener('close', () => this.#stop());
    parts.conversation.on('state', () => {
      const { isActive } = parts.conversation.call;
      elements.open.hidden = isActive; // it would take the microphone
      if (isActive) elements.dialog.close();
    });
  }

  #start() {
    const { api, openMicrophone } = this.#parts;
    this.#elements.dialog.showModal();
    this.#test = new SelfTest(
      {
        openMicrophone,
        measure: (stream) => new MicrophoneLevel(stream),
        testNetwork: (signal) => testNetwork({ api, signal }),
        playChime: () => this.#clip.play(chime()),
      },
      (check, finding) => this.#draw(check, finding),
    );
    this.#test.start();
  }

  #stop() {
    this.#test?.stop();
    this.#test = null;
    this.#clip.stop();
  }

  /**
   * @param {Check} check
   * @param {Finding} finding
   */
  #draw(check, finding) {
    const row = this.#rows.get(check);
    if (!row) return;
    row.item.dataset.verdict = finding.verdict;
    row.text.textContent = said(check, finding);
    if (check === 'speaker') this.#answers.hidden = finding.verdict === 'running' || finding.verdict === 'good';
  }

  /** @param {Check} check */
  #addRow(check) {
    const item = document.createElement('li');
    item.dataset.testid = `check-${check}`;
    const name = document.createElement('strong');
    name.textContent = strings.selfTest.names[check];
    const text = document.createElement('p');
    text.setAttribute('role', 'status');
    item.append(name, text);
    this.#elements.list.append(item);
    this.#rows.set(check, { item, text });
  }

  #makeAnswers() {
    const answers = document.createElement('p');
    answers.className = 'answers';
    answers.hidden = true;
    const add = (/** @type {string} */ label, /** @type {() => void} */ press) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = label;
      button.addEventListener('click', press);
      answers.append(button);
    };
    add(strings.selfTest.heard, () => this.#test?.answer(true));
    add(strings.selfTest.notHeard, () => this.#test?.answer(false));
    add(strings.selfTest.again, () => this.#test?.playChime());
    this.#rows.get('speaker')?.item.append(answers);
    return answers;
  }
}

/**
 * @param {Check} check
 * @param {Finding} finding
 */
function said(check, { verdict, code, network }) {
  const texts = strings.selfTest;
  if (network) return texts.found(network.isRelayed, network.protocol ?? 'udp', network.roundTripMs);
  if (verdict === 'running') return texts.running[check];
  if (verdict === 'asking') return texts.asking;
  if (Object.hasOwn(texts.results, code)) return texts.results[/** @type {keyof typeof texts.results} */ (code)];
  const { title, text } = messages.trouble({ code });
  return check === 'speaker' ? texts.results.not_heard : `${title}. ${text}`;
}
