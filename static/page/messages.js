/**
 * Everything the page says, in one place. A message about trouble says what happened and what to do.
 *
 * @typedef {{title: string, text: string}} Message
 */

/** @type {Record<import('./call.js').CallState, Message>} */
export const STATES = {
  ready: { title: 'Ready when you are', text: 'Press the button and just talk. You can interrupt at any time.' },
  asking: { title: 'May I listen?', text: 'Your browser asks for the microphone: choose “Allow”.' },
  connecting: { title: 'Connecting', text: 'Opening a line to the agent.' },
  preparing: { title: 'Getting into character', text: 'The agent reads its persona.' },
  listening: { title: 'Listening', text: 'Say something.' },
  hearing: { title: 'Hearing you', text: 'Go on.' },
  speaking: { title: 'Speaking', text: 'Interrupt whenever you like.' },
  interrupted: { title: 'Interrupted', text: 'The agent heard you.' },
  reconnecting: { title: 'Reconnecting', text: 'Nothing comes through at the moment. The agent waits, and the call goes on where it was.' },
  ended: { title: 'Call ended', text: 'Press the button to talk again.' },
  failed: { title: 'That did not work', text: 'Press the button to try again.' },
};

export const START = 'Start talking';
export const END = 'End call';
export const CONTINUE = 'Continue';
/** @type {Message} */
export const CAN_CONTINUE = { title: 'Where were we?', text: 'Your call is still there for a few seconds. Press the button to go on with it.' };
export const RESUMING = 'Taking your call up where the page left it.';
export const MUTE_LABEL = 'Mute';
export const UNMUTE_LABEL = 'Unmute';
export const MUTED = 'You are muted: the agent hears silence.';

/** @param {{done: number, total: number}} prefill */
export function preparing({ done, total }) {
  const percent = total > 0 ? Math.min(100, Math.round((100 * done) / total)) : 0;
  return `The agent reads its persona: ${percent} %.`;
}

/** @param {number} position */
export function queued(position) {
  return `All lines are in use. You are number ${position} in the queue.`;
}

/**
 * @param {number} seconds
 * @param {string} reason
 * @returns {Message}
 */
export function ending(seconds, reason) {
  return { title: 'This call is about to end', text: `${farewell(reason).text} It goes on for ${Math.max(1, Math.round(seconds))} s at most.` };
}

/** Troubles by code: the server's and this side's. @type {Record<string, Message>} */
const TROUBLES = {
  insecure_context: {
    title: 'This page needs HTTPS',
    text: 'Browsers give the microphone only to secure pages. Open it as http://localhost on the server’s own machine, or start the server with --tls self-signed and use https://.',
  },
  no_webrtc: {
    title: 'This browser cannot make calls',
    text: 'It has no WebRTC. Use a current Chrome, Edge, Firefox or Safari.',
  },
  microphone_denied: {
    title: 'The microphone is blocked',
    text: 'Click the icon left of the address, set Microphone to “Allow”, and press the button again.',
  },
  microphone_blocked_by_system: {
    title: 'Your system blocks the microphone',
    text: 'Allow this browser to use the microphone in the privacy settings of your system, and press the button again.',
  },
  microphone_missing: {
    title: 'No microphone found',
    text: 'Connect a microphone or a headset, and press the button again.',
  },
  microphone_busy: {
    title: 'The microphone is in use',
    text: 'Another program holds it. Close that program, or choose another microphone in your system’s sound settings, and press the button again.',
  },
  microphone_failed: {
    title: 'The microphone did not start',
    text: 'Check that it works in other programs, and press the button again.',
  },
  session_not_found: {
    title: 'The call is over',
    text: 'The server has let it go while nothing came through. Press the button to start a new one.',
  },
  too_many_resumes: {
    title: 'The call could not be taken up',
    text: 'Too many attempts in a short time. Wait ten seconds and press the button again.',
  },
  sound_blocked: {
    title: 'The browser holds back the sound',
    text: 'Click or tap anywhere on the page to hear the agent.',
  },
  server_unreachable: {
    title: 'The server does not answer',
    text: 'Check that it is still running and that you are online, and try again.',
  },
  unauthorized: {
    title: 'A key is needed',
    text: 'Open the whole link that the server printed when it started: it ends in #token=…',
  },
  forbidden_origin: {
    title: 'The server does not accept this page',
    text: 'Its address is not among the allowed origins. Start the server with --allow-origin and this page’s address.',
  },
  engine_draining: {
    title: 'The server is going down',
    text: 'It takes no new calls. Try again in a little while.',
  },
  engine_unavailable: {
    title: 'The agent is not available',
    text: 'The engine is not running. Try again in a few seconds; if it stays so, look at the server’s log.',
  },
  too_many_half_open: {
    title: 'Too many calls are starting',
    text: 'Wait a few seconds and try again.',
  },
  ice_failed: {
    title: 'No connection for the sound',
    text: 'The page loads, but voice cannot get through: a firewall or VPN may block UDP to the server. On another network, start the server with --advertise-ip and an address that you can reach. `rtc-server check` tells more.',
  },
  dtls_failed: {
    title: 'The encrypted connection failed',
    text: 'The handshake did not finish: the network may lose too many packets. Try again.',
  },
  unknown_voice: {
    title: 'The agent does not have this voice',
    text: 'Choose another voice and try again.',
  },
  bad_answer: {
    title: 'This is not the server that was expected',
    text: 'Something else answers at this address, a proxy perhaps. Reload the page.',
  },
};

/** Why a call ended, by the reason of `session.ended`, or this side's own word. @type {Record<string, Message>} */
const FAREWELLS = {
  closed: { title: 'Call ended', text: 'Press the button to talk again.' },
  silence: { title: 'Call ended', text: 'Nothing was heard for five minutes, so the agent hung up.' },
  connection_lost: { title: 'The connection broke', text: 'The server or the network went away and did not come back. Press the button to call again.' },
  replaced: { title: 'The call went elsewhere', text: 'Another page has taken it over, and it goes on there. Press the button to start a new one here.' },
  peer_lost: { title: 'The connection broke', text: 'Nothing came through from this browser for too long.' },
  engine_lost: { title: 'The agent is gone', text: 'Its engine stopped in the middle of the call. Press the button to call again.' },
  shutdown: { title: 'The server goes down', text: 'The server is being stopped or restarted. Try again in a moment.' },
  time_limit: { title: 'Time is up', text: 'The server allows calls of this length. Press the button to call again.' },
};

/** Other words for the same reasons. @type {Record<string, keyof typeof FAREWELLS>} */
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

/**
 * @param {string} reason
 * @returns {Message & {expected: boolean}} `expected` where nothing went wrong.
 */
export function farewell(reason) {
  const key = Object.hasOwn(SAME_AS, reason) ? SAME_AS[reason] : reason;
  const message = Object.hasOwn(FAREWELLS, key)
    ? FAREWELLS[key]
    : Object.hasOwn(TROUBLES, key)
      ? TROUBLES[key]
      : { title: 'The server ended the call', text: `Its reason: ${reason.replaceAll('_', ' ')}.` };
  return { ...message, expected: key === 'closed' || key === 'silence' || key === 'time_limit' };
}

export const MICROPHONE_AGAIN = 'Use the microphone';

/**
 * The microphone was taken from a call that goes on.
 *
 * @param {'interrupted' | 'lost'} state
 * @param {string} code Why it could not be had again; '' before anybody tried.
 * @returns {Message}
 */
export function withoutMicrophone(state, code) {
  if (code === 'microphone_denied' || code === 'microphone_blocked_by_system') {
    return { title: TROUBLES[code].title, text: 'The agent hears silence. Allow the microphone for this page, then press the button below.' };
  }
  if (state === 'lost') {
    return { title: 'The microphone is gone', text: 'It was unplugged or taken away, and the agent hears silence. Connect it again, then press the button below.' };
  }
  return {
    title: 'The microphone is paused',
    text: 'A phone call or another app holds it, and the agent hears silence. When that is over and it does not come back by itself, press the button below.',
  };
}

/**
 * @param {{code?: string, message?: string, hint?: string, retryAfterS?: number | null}} error
 * @param {{total?: number}} [slots]
 * @returns {Message}
 */
export function trouble({ code = '', message = '', hint = '', retryAfterS = null }, slots = {}) {
  if (code === 'engine_full' || code === 'at_capacity') return full(slots.total, retryAfterS);
  if (Object.hasOwn(TROUBLES, code)) return TROUBLES[code];
  const said = [message, hint].filter(Boolean).join('. ') || 'No reason was given.';
  return { title: STATES.failed.title, text: `${said[0].toUpperCase()}${said.slice(1)}${/[.!?]$/.test(said) ? '' : '.'}` };
}

/**
 * @param {number | undefined} total
 * @param {number | null} retryAfterS
 * @returns {Message}
 */
function full(total, retryAfterS) {
  const who = total === 1 ? 'The agent is in another call.' : total ? `All ${total} lines are in use.` : 'All lines are in use.';
  const when = retryAfterS ? `Try again in ${retryAfterS} seconds` : 'Try again in a moment';
  return { title: 'Everyone is talking', text: `${who} ${when}.` };
}

/** The server itself says that nobody can reach it. @param {string} message */
export function noConnectivity(message) {
  return { title: 'A call may not connect', text: message || 'The server has no network address that a browser can reach.' };
}

/** @type {Record<import('./latency.js').Part, string>} */
export const LATENCY_PARTS = {
  codec: 'Codec',
  network: 'Network, there and back',
  serverJitter: 'Jitter buffer, server',
  frame: 'Frame of the engine',
  engine: 'Engine’s thinking',
  playout: 'Waiting to be sent',
  browserJitter: 'Jitter buffer, browser',
  device: 'Sound device',
};

/** @param {{total: number, free: number}} slots */
export function slotsFree({ total, free }) {
  if (total === 1) return free ? 'free' : 'in a call';
  return `${free} of ${total} free`;
}

/** @param {string} device */
export function deviceName(device) {
  return /^(cpu|cuda|gpu)\b/i.test(device) ? device.toUpperCase().replace('CUDA', 'GPU') : device;
}

/** @param {number} ms */
export function spokeFor(ms) {
  return `spoke for ${(ms / 1000).toFixed(1)} s`;
}

/** @param {number} ms */
export function clock(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}

/** Where to start from; people write their own. */
export const PERSONAS = [
  { name: 'Good company', text: 'You are warm, curious company. You keep answers short, ask one question at a time, and laugh easily.' },
  { name: 'Patient teacher', text: 'You are a patient teacher. You explain one idea at a time in plain words, give an example, and check that it was understood.' },
  { name: 'Front desk', text: 'You work at the front desk of the Harbor Hotel. You are quick and friendly. You help with bookings, directions and breakfast times.' },
  { name: 'Storyteller', text: 'You are a storyteller. You tell vivid, calm stories and let the listener decide what happens next.' },
];
