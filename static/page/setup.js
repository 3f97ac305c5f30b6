/**
 * How a call is to be set up: who the agent is, its voice, and the numbers of its chance. All of it fits into an
 * address, so that a link reproduces it. Pure.
 *
 * @typedef {'audio_temperature' | 'audio_top_k' | 'text_temperature' | 'text_top_k'} SamplingName
 *
 * @typedef {object} Setup Empty strings where nothing was chosen; numbers as they were typed.
 * @property {string} persona
 * @property {string} voice
 * @property {string} seed
 * @property {Record<SamplingName, string>} sampling
 *
 * @typedef {object} Range
 * @property {number} min
 * @property {number} max
 * @property {boolean} whole
 */

/** @type {readonly SamplingName[]} */
export const SAMPLING = ['audio_temperature', 'audio_top_k', 'text_temperature', 'text_top_k'];
/** Names of the fields in an address. */
const IN_ADDRESS = ['persona', 'voice', 'seed', ...SAMPLING];
/** More than that is no persona, whatever the server takes. */
const MAX_TEXT_CHARS = 20_000;
const MAX_NUMBER_CHARS = 24;

/** @returns {Setup} */
export function emptySetup() {
  return { persona: '', voice: '', seed: '', sampling: { audio_temperature: '', audio_top_k: '', text_temperature: '', text_top_k: '' } };
}

/**
 * @param {string} hash Of an address, with or without its `#`.
 * @returns {Setup | null} Null where the address says nothing about a set-up.
 */
export function readAddress(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ''));
  if (!IN_ADDRESS.some((name) => fields.has(name))) return null;
  const text = (/** @type {string} */ name, /** @type {number} */ most) => (fields.get(name) ?? '').slice(0, most);
  const setup = emptySetup();
  setup.persona = text('persona', MAX_TEXT_CHARS);
  setup.voice = text('voice', MAX_TEXT_CHARS);
  setup.seed = text('seed', MAX_NUMBER_CHARS);
  for (const name of SAMPLING) setup.sampling[name] = text(name, MAX_NUMBER_CHARS);
  return setup;
}

/**
 * @param {Setup} setup
 * @param {string} [hash] Of the address now: what is in it besides stays.
 * @returns {string} '' or a hash with its `#`.
 */
export function writeAddress({ persona, voice, seed, sampling }, hash = '') {
  const fields = new URLSearchParams(hash.replace(/^#/, ''));
  for (const [name, value] of Object.entries({ persona, voice, seed, ...sampling })) {
    if (value) fields.set(name, value);
    else fields.delete(name);
  }
  const written = fields.toString();
  return written && `#${written}`;
}

/**
 * An address that brings a set-up back; whoever opens it needs a key of his own.
 *
 * @param {Setup} setup
 * @param {Pick<Location, 'origin' | 'pathname' | 'search' | 'hash'>} location
 */
export function link(setup, { origin, pathname, search, hash }) {
  const fields = new URLSearchParams(hash.replace(/^#/, ''));
  fields.delete('token');
  return origin + pathname + search + writeAddress(setup, fields.toString());
}

/**
 * What of a set-up a server cannot do. A seed is every engine's to take, also of one that does not sample.
 *
 * @param {Setup} setup
 * @param {Pick<import('../client/api.js').EngineInfo, 'voices' | 'sampling'>} engine
 * @returns {{voice: string, numbers: boolean}} `voice`: one that it does not have, or ''.
 */
export function missing({ voice, sampling }, { voices, sampling: settings }) {
  const hasNumbers = Object.values(sampling).some((typed) => typed !== '');
  return { voice: voices.includes(voice) ? '' : voice, numbers: hasNumbers && !settings };
}

/**
 * How long a persona is, as it is sent and as the server counts it.
 *
 * @param {string} persona
 */
export function chars(persona) {
  return [...persona.trim()].length;
}

/**
 * @param {string} typed
 * @param {Range} range
 * @returns {number | null} Null where it is no number of this range.
 */
export function numberIn(typed, { min, max, whole }) {
  const number = typed.trim() === '' ? NaN : Number(typed);
  if (!Number.isFinite(number) || number < min || number > max || (whole && !Number.isSafeInteger(number))) return null;
  return number;
}

/**
 * What `connect` takes. What is no number of its range is left out: the engine's own is used.
 *
 * @param {Setup} setup
 * @param {{seed: Range, sampling: Record<SamplingName, Range> | null}} ranges
 * @returns {{persona?: string, voice?: string, seed?: number, sampling?: Partial<Record<SamplingName, number>>}}
 */
export function request({ persona, voice, seed, sampling }, ranges) {
  /** @type {Partial<Record<SamplingName, number>>} */
  const chosen = {};
  for (const name of SAMPLING) {
    const number = ranges.sampling && numberIn(sampling[name], ranges.sampling[name]);
    if (number !== null) chosen[name] = number;
  }
  return {
    persona: persona.trim() || undefined,
    voice: voice || undefined,
    seed: numberIn(seed, ranges.seed) ?? undefined,
    sampling: Object.keys(chosen).length ? chosen : undefined,
  };
}
