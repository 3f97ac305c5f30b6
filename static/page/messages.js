import { strings } from './language.js';

/**
 * Which message fits: from the codes, reasons and figures of a call to what the page says.
 *
 * @typedef {import('../strings/en.js').Message} Message
 */

/** @param {{done: number, total: number}} prefill */
export function preparing({ done, total }) {
  return strings.preparing(total > 0 ? Math.min(100, Math.round((100 * done) / total)) : 0);
}

/**
 * @param {number} seconds
 * @param {string} reason
 * @returns {Message}
 */
export function ending(seconds, reason) {
  return strings.ending(farewell(reason).text, Math.max(1, Math.round(seconds)));
}

/** Other words for the same reasons. @type {Record<string, string>} */
const SAME_AS = {
  client_closed: 'closed',
  deleted: 'closed',
  bye: 'closed',
  no_audio: 'silence',
  idle: 'silence',
  peer_silent: 'peer_lost',
  peer_gone: 'peer_lost',
  peer_closed: 'peer_lost',
  engine_failed: 'engine_lost',
  engine_error: 'engine_lost',
  engine_unavailable: 'engine_lost',
  lease_revoked: 'engine_lost',
  server_stopping: 'shutdown',
  server_shutdown: 'shutdown',
  draining: 'shutdown',
  drain: 'shutdown',
  deadline: 'time_limit',
};
const EXPECTED = new Set(['closed', 'silence', 'time_limit']);

/**
 * @param {string} reason Of `session.ended`, or this side's own word.
 * @returns {Message & {expected: boolean}} `expected` where nothing went wrong.
 */
export function farewell(reason) {
  const key = Object.hasOwn(SAME_AS, reason) ? SAME_AS[reason] : reason;
  const message = own(strings.farewells, key) ?? own(strings.troubles, key) ?? strings.otherFarewell(reason);
  return { ...message, expected: EXPECTED.has(key) };
}

/**
 * The microphone was taken from a call that goes on.
 *
 * @param {'interrupted' | 'lost'} state
 * @param {string} code Why it could not be had again; '' before anybody tried.
 * @param {boolean} [wasAsked] Whether the person has just asked for it.
 * @returns {Message}
 */
export function withoutMicrophone(state, code, wasAsked = false) {
  const { denied, busy, still } = strings.microphone;
  /** @type {Record<string, string>} */
  const why = { microphone_denied: denied, microphone_blocked_by_system: denied, microphone_busy: busy };
  const isKnown = Object.hasOwn(why, code);
  const { title, text } = isKnown ? { title: strings.troubles[code].title, text: why[code] } : strings.microphone[state];
  if (!wasAsked || !code) return { title, text };
  return { title: still[Object.hasOwn(still, code) ? code : 'microphone_failed'], text };
}

/**
 * What the call is doing.
 *
 * @param {import('./call.js').CallState} state
 * @param {{isMuted?: boolean, canContinue?: boolean}} [also] `canContinue`: an earlier page has left a call.
 * @returns {Message}
 */
export function doing(state, { isMuted = false, canContinue = false } = {}) {
  if (state === 'ready' && canContinue) return strings.canContinue;
  return isMuted && (state === 'listening' || state === 'hearing') ? strings.muted : strings.states[state];
}

/**
 * @param {{code?: string}} problem
 * @returns {import('./notices.js').Kind} When the message about it goes away.
 */
export function kindOf({ code = '' }) {
  return code === 'server_unreachable' || code === 'bad_answer' || code.startsWith('http_5') ? 'server' : 'error';
}

/**
 * @param {{code?: string, message?: string, hint?: string, retryAfterS?: number | null}} error
 * @param {{total?: number}} [slots]
 * @returns {Message}
 */
export function trouble({ code = '', message = '', hint = '', retryAfterS = null }, slots = {}) {
  if (code === 'engine_full' || code === 'at_capacity') return strings.full(slots.total, retryAfterS);
  const known = own(strings.troubles, code);
  if (known) return known;
  return { title: strings.states.failed.title, text: [message, hint].filter(Boolean).map(sentence).join(' ') || strings.noReason };
}

/** @param {string} said */
function sentence(said) {
  return `${said[0].toUpperCase()}${said.slice(1)}${/[.!?…]$/.test(said) ? '' : '.'}`;
}

/** The server itself says that nobody can reach it. @param {string} message @returns {Message} */
export function noConnectivity(message) {
  return { ...strings.noConnectivity, ...(message && { text: message }) };
}

/** @param {{total: number, free: number}} slots */
export function slotsFree({ total, free }) {
  if (total === 1) return free ? strings.free : strings.inCall;
  return strings.slotsFree(free, total);
}

/** @param {string} device */
export function deviceName(device) {
  return /^(cpu|cuda|gpu)\b/i.test(device) ? device.toUpperCase().replace('CUDA', 'GPU') : device;
}

/** @param {number} ms */
export function spokeFor(ms) {
  return strings.transcript.spokeFor(ms / 1000);
}

/** @param {number} ms */
export function clock(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}

/**
 * @param {Record<string, Message>} messages
 * @param {string} key
 * @returns {Message | null} Null where there is none of its own.
 */
function own(messages, key) {
  return Object.hasOwn(messages, key) ? messages[key] : null;
}
