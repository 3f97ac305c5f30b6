import { CallError } from '../client/errors.js';
import { openMicrophone } from '../client/microphone.js';
import { askForSpeaker, canAskForSpeaker } from './devices.js';
import { strings } from './language.js';
import * as messages from './messages.js';

/**
 * The pickers of microphone and speaker. They can be used at any time: in a call, the other microphone takes over
 * without a break. Where the browser keeps the names to itself there is a button that asks for the microphone instead.
 * Where it has a list of speakers of its own, the last entry of the picker opens that.
 *
 * @typedef {'microphone' | 'speaker'} Which
 *
 * @typedef {object} DevicesElements
 * @property {HTMLElement} ask Shows the pickers, after the browser has asked the person.
 * @property {HTMLSelectElement} microphone Inside a label.
 * @property {HTMLSelectElement} speaker Inside a label.
 * @property {HTMLElement} told What happened to the devices; a live region.
 */

/** The entry that opens the browser's own list; no device has such an id. */
const ASK = 'ask the browser';
/** A browser that gives a speaker of before does so at once; one that takes longer asks the person, and the call begins. */
const BRING_BACK_MS = 1_000;

export class DevicesView {
  #elements;
  #conversation;
  #devices;
  #audio;
  #media = /** @type {(MediaDevices & import('./devices.js').SpeakerChooser) | undefined} */ (navigator.mediaDevices); // none on an insecure page
  /** The id with which the microphone was asked for last. */
  #opened = '';
  /** The id that the sound goes to. */
  #sink = '';
  /** Settled when the speaker may be changed. @type {Promise<void>} */
  #speakerTurn = Promise.resolve();
  /** How often a choice was made: a list of devices that was asked for before it knows nothing of it. */
  #choices = 0;
  /** Whether a speaker of an earlier visit may be asked for: once, or the person may be asked at every call. */
  #bringsBack = true;
  #phase = '';

  /**
   * @param {DevicesElements} elements
   * @param {import('./conversation.js').Conversation} conversation
   * @param {import('./devices.js').Devices} devices
   * @param {HTMLAudioElement} audio
   */
  constructor(elements, conversation, devices, audio) {
    this.#elements = elements;
    this.#conversation = conversation;
    this.#devices = devices;
    this.#audio = audio;
    elements.ask.addEventListener('click', () => this.#ask());
    elements.microphone.addEventListener('change', () => this.#choose('microphone'));
    elements.speaker.addEventListener('change', () => this.#choose('speaker'));
    conversation.on('state', () => this.#onState());
    conversation.on('microphone', () => this.refresh());
    this.#media?.addEventListener?.('devicechange', () => this.refresh());
    // A page that is not seen may not be told.
    document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && this.refresh());
    this.refresh();
  }

  /** The chosen microphone. @returns {Promise<MediaStream>} */
  async openMicrophone() {
    // First: in Firefox, a question about the microphone takes the place of one about the speaker.
    if (this.#bringsBack && this.#devices.speaker.isMissing && this.#canChooseSpeaker && canAskForSpeaker(this.#media)) {
      await Promise.race([this.#bringBackSpeaker(), new Promise((resolve) => setTimeout(resolve, BRING_BACK_MS))]);
    }
    const { id } = this.#devices.microphone;
    this.#opened = id;
    const stream = await openMicrophone({ deviceId: id });
    this.refresh(); // now the browser tells the names
    return stream;
  }

  /** Look again at what is plugged in. @returns {Promise<void>} */
  async refresh() {
    const choices = this.#choices;
    const infos = await this.#media?.enumerateDevices?.().catch(() => null);
    if (!infos) return;
    if (choices !== this.#choices) return this.refresh();
    const changes = this.#devices.update(infos);
    this.#draw();
    for (const which of /** @type {Which[]} */ (['microphone', 'speaker'])) {
      const change = changes[which];
      if (which === 'speaker' && !this.#canChooseSpeaker) continue;
      const used = await this.#use(which).then(() => true, () => false);
      if (change !== 'none' && used) this.#tell(strings.devices[change](this.#devices[which].wanted?.label ?? ''));
    }
  }

  #onState() {
    const { phase } = this.#conversation.call;
    if (phase === this.#phase) return;
    this.#phase = phase;
    if (phase === 'asking') this.#tell('');
    this.refresh();
  }

  get #canChooseSpeaker() {
    return 'setSinkId' in this.#audio;
  }

  /** @param {Which} which */
  async #choose(which) {
    const before = this.#devices[which].wanted;
    this.#tell('');
    const { value } = this.#elements[which];
    const id = value === ASK ? await this.#askForSpeaker() : value;
    if (id === null) return this.#draw();
    this.#take(which, id);
    try {
      await this.#use(which);
    } catch (error) {
      if (error instanceof CallError && error.code === 'no_microphone') return; // the call is over
      const name = this.#devices[which].wanted?.label || strings.devices.defaults[which];
      this.#choices += 1;
      this.#devices.restore(which, before);
      this.#draw();
      this.#tell(strings.devices.failed(name));
    }
  }

  /**
   * Bring what is used in line with the choice.
   *
   * @param {Which} which
   */
  async #use(which) {
    if (which === 'speaker') return this.#useSpeaker();
    const { id } = this.#devices.microphone;
    if (this.#conversation.client?.microphone && this.#conversation.call.isActive && id !== this.#opened) {
      const before = this.#opened;
      await this.#conversation.changeMicrophone().catch((error) => {
        this.#opened = before;
        throw error;
      });
    }
  }

  /** One change at a time: of two, a browser may give up the first. While a call is being made, its voice is waited for. */
  #useSpeaker() {
    const done = this.#speakerTurn.then(async () => {
      const { id } = this.#devices.speaker;
      if (id === this.#sink) return;
      const sound = /** @type {MediaStream | null} */ (this.#audio.srcObject);
      if (sound?.getAudioTracks().length === 0) return; // Chromium takes no speaker for it
      await this.#audio.setSinkId(id);
      this.#sink = id;
    });
    this.#speakerTurn = done.catch(() => {});
    return done;
  }

  /**
   * @param {Which} which
   * @param {string} id
   */
  #take(which, id) {
    this.#choices += 1;
    this.#devices.choose(which, id);
    this.#draw();
  }

  /** The speaker of an earlier visit, which the browser lists only once it is asked for it, in a gesture. */
  async #bringBackSpeaker() {
    const { speaker } = this.#devices;
    const { id, label } = speaker.wanted ?? { id: '', label: '' };
    this.#bringsBack = false;
    const chosen = await askForSpeaker(this.#media, id);
    if (typeof chosen === 'string') {
      this.#bringsBack = chosen === 'failed'; // there was no gesture, so nobody was asked
      return this.#tell(strings.devices.forgotten(label));
    }
    speaker.add(chosen);
    this.#take('speaker', chosen.id);
    const used = await this.#use('speaker').then(() => true, () => false);
    if (!used) this.#tell(strings.devices.failed(chosen.label));
    else if (chosen.label === label) this.#tell(strings.devices.back(label));
  }

  /** @returns {Promise<string | null>} The id of what the person has chosen in the browser's list; null: nothing. */
  async #askForSpeaker() {
    const chosen = await askForSpeaker(this.#media);
    if (typeof chosen === 'string') {
      this.#tell(strings.devices.notChosen[chosen]);
      return null;
    }
    this.#devices.speaker.add(chosen);
    return chosen.id;
  }

  async #ask() {
    try {
      for (const track of (await this.openMicrophone()).getTracks()) track.stop();
      this.#tell('');
      await this.refresh();
      this.#elements.microphone.focus(); // the button is gone
    } catch (error) {
      const { title, text } = messages.trouble(error instanceof CallError ? error : { message: String(error) });
      this.#tell(`${title}. ${text}`);
    }
  }

  #draw() {
    const { ask, microphone, speaker } = this.#elements;
    const { microphone: microphones, speaker: speakers } = this.#devices;
    ask.hidden = !microphones.isSecret || this.#conversation.call.isActive;
    fill(microphone, microphones, strings.devices.defaults.microphone);
    show(microphone, microphones.isKnown);
    const asks = canAskForSpeaker(this.#media);
    fill(speaker, speakers, strings.devices.defaults.speaker, asks ? [{ id: ASK, label: strings.devices.chooseSpeaker }] : []);
    show(speaker, this.#canChooseSpeaker && (speakers.isKnown || (asks && ask.hidden)));
  }

  /** @param {string} text */
  #tell(text) {
    this.#elements.told.textContent = text;
  }
}

/**
 * @param {HTMLSelectElement} select
 * @param {import('./devices.js').Choice} choice
 * @param {string} defaultName Where the browser has no name for the default.
 * @param {import('./devices.js').Device[]} [others] At the end.
 */
function fill(select, choice, defaultName, others = []) {
  const options = [{ id: '', label: choice.defaultLabel || defaultName }, ...choice.devices, ...others];
  const isSame =
    options.length === select.length &&
    options.every(({ id, label }, i) => select.options[i].value === id && select.options[i].text === label);
  if (!isSame) select.replaceChildren(...options.map(({ id, label }) => new Option(label, id))); // it may be open
  select.value = choice.id;
}

/** @param {HTMLElement} select @param {boolean} isShown */
function show(select, isShown) {
  const label = select.closest('label');
  if (label) label.hidden = !isShown;
}
