/**
 * Which microphone and which speaker to use, through plugging and unplugging. The person's choice outlives both: while
 * its device is away the default takes over, and when it is back it is used again.
 *
 * Browsers tell names and ids of devices only once the microphone is allowed. They forget ids (cleared data, private
 * windows, Safari at every start), so a device that is not found by its id is looked for by its name.
 *
 * @typedef {{id: string, label: string}} Device
 * @typedef {'none' | 'gone' | 'back'} Change Of the chosen device.
 * @typedef {Pick<MediaDeviceInfo, 'kind' | 'deviceId' | 'label'>} DeviceInfo
 */

const STORAGE_KEY = 'rtc_server.devices';
/** Chromium lists what the system uses by default a second time, under this id. */
const DEFAULT = 'default';

/** The devices of one kind, and which of them is used. */
export class Choice {
  /** What there is, beside the default. @type {Device[]} */
  devices = [];
  /** The name of the default, where the browser tells it. */
  defaultLabel = '';
  /** Whether there is one whose name the browser keeps to itself. */
  isSecret = false;
  #kind;
  /** What the person chose; null: the default. @type {Device | null} */
  #wanted;
  /** Whether the chosen device was there when last looked; null before the browser told. @type {boolean | null} */
  #isThere = null;

  /**
   * @param {MediaDeviceKind} kind
   * @param {Device | null} wanted What was chosen at an earlier time.
   */
  constructor(kind, wanted = null) {
    this.#kind = kind;
    this.#wanted = wanted;
  }

  get wanted() {
    return this.#wanted;
  }

  /** The id to use now; '' for the default. An id from an earlier time is tried until the browser tells. */
  get id() {
    return this.#wanted && this.#isThere !== false ? this.#wanted.id : '';
  }

  /** Chosen at an earlier time, and not among what the browser lists: away, or not listed unless it is asked for. */
  get isMissing() {
    return this.#wanted !== null && this.#isThere === false;
  }

  get isKnown() {
    return this.devices.length > 0 || this.defaultLabel !== '';
  }

  /** The browser has just given this one to the page, and may list it later. @param {Device} device */
  add(device) {
    if (device.id && !this.devices.some(({ id }) => id === device.id)) this.devices = [...this.devices, device];
  }

  /** @param {string} id '' for the default. */
  choose(id) {
    this.#wanted = this.devices.find((device) => device.id === id) ?? null;
    this.#isThere = this.#wanted ? true : null;
  }

  /** Back to what was chosen before, whether it is there or not. @param {Device | null} wanted */
  restore(wanted) {
    this.#wanted = wanted;
    this.#isThere = wanted && this.devices.some(({ id }) => id === wanted.id);
  }

  /**
   * @param {readonly DeviceInfo[]} infos What `enumerateDevices` tells.
   * @returns {Change}
   */
  update(infos) {
    const mine = infos.filter(({ kind }) => kind === this.#kind);
    const named = mine.filter(({ deviceId, label }) => deviceId && label);
    this.isSecret = mine.length > 0 && named.length === 0;
    this.defaultLabel = named.find(({ deviceId }) => deviceId === DEFAULT)?.label ?? '';
    this.devices = named.filter(({ deviceId }) => deviceId !== DEFAULT).map(({ deviceId: id, label }) => ({ id, label }));
    if (!this.#wanted || this.isSecret) return 'none';
    const found =
      this.devices.find(({ id }) => id === this.#wanted?.id) ?? this.devices.find(({ label }) => label === this.#wanted?.label);
    const before = this.#isThere;
    this.#isThere = found !== undefined;
    this.#wanted = found ?? this.#wanted;
    if (before === null || before === this.#isThere) return 'none';
    return found ? 'back' : 'gone';
  }
}

/** Both choices, kept in this browser. */
export class Devices {
  microphone;
  speaker;
  #storage;

  /** @param {Pick<Storage, 'getItem' | 'setItem'> | null} storage */
  constructor(storage) {
    this.#storage = storage;
    const kept = this.#load();
    this.microphone = new Choice('audioinput', device(kept.microphone));
    this.speaker = new Choice('audiooutput', device(kept.speaker));
  }

  /** @param {readonly DeviceInfo[]} infos @returns {{microphone: Change, speaker: Change}} */
  update(infos) {
    const before = this.#kept();
    const changes = { microphone: this.microphone.update(infos), speaker: this.speaker.update(infos) };
    if (this.#kept() !== before) this.#save(); // an id was found to be another one now
    return changes;
  }

  /**
   * @param {'microphone' | 'speaker'} which
   * @param {string} id '' for the default.
   */
  choose(which, id) {
    this[which].choose(id);
    this.#save();
  }

  /**
   * @param {'microphone' | 'speaker'} which
   * @param {Device | null} wanted What was chosen before.
   */
  restore(which, wanted) {
    this[which].restore(wanted);
    this.#save();
  }

  #kept() {
    return JSON.stringify({ microphone: this.microphone.wanted, speaker: this.speaker.wanted });
  }

  #save() {
    try {
      this.#storage?.setItem(STORAGE_KEY, this.#kept());
    } catch {
      // full or forbidden: the choice holds for this page only
    }
  }

  #load() {
    try {
      return JSON.parse(this.#storage?.getItem(STORAGE_KEY) ?? '{}') ?? {};
    } catch {
      return {};
    }
  }
}

/**
 * Firefox lists no speaker but those that the person has chosen since the page was loaded, in a list of the browser's own.
 * It remembers that they were allowed: asked for one of them by its id, it gives it without a word. Where it can't, since
 * the speaker is unplugged, say, it opens its list.
 *
 * @typedef {object} SpeakerChooser `navigator.mediaDevices`
 * @property {(options?: {deviceId: string}) => Promise<{deviceId: string, label: string}>} [selectAudioOutput]
 *
 * @param {SpeakerChooser | undefined} media
 */
export function canAskForSpeaker(media) {
  return typeof media?.selectAudioOutput === 'function';
}

/**
 * Let the person choose a speaker in the browser's list. To be called inside a gesture. Never rejects.
 *
 * @param {SpeakerChooser | undefined} media
 * @param {string} [id] Rather this one, which was chosen before, without the list.
 * @returns {Promise<Device | 'declined' | 'missing' | 'failed'>} `declined`: by the person, or once and for all; `failed`:
 *   without a gesture, too.
 */
export async function askForSpeaker(media, id = '') {
  try {
    const chosen = await media?.selectAudioOutput?.(id ? { deviceId: id } : undefined);
    return chosen ? { id: chosen.deviceId, label: chosen.label } : 'failed';
  } catch (error) {
    const name = error instanceof Error || error instanceof DOMException ? error.name : '';
    return name === 'NotAllowedError' ? 'declined' : name === 'NotFoundError' ? 'missing' : 'failed';
  }
}

/** @param {any} kept What a storage holds may be anything. @returns {Device | null} */
function device(kept) {
  return typeof kept?.id === 'string' && typeof kept.label === 'string' && kept.id ? { id: kept.id, label: kept.label } : null;
}
