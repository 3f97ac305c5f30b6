/**
 * The page: puts the parts together and draws the state of the call.
 */

import { Api } from './client/api.js';
import { RtcClient } from './client.js';
import { Conversation } from './page/conversation.js';
import { CallError } from './client/errors.js';
import { Handover } from './page/handover.js';
import { LatencyView } from './page/latency_view.js';
import * as messages from './page/messages.js';
import { isMicrophoneGranted } from './client/microphone.js';
import { Settings } from './page/settings.js';
import { Stage } from './page/stage.js';
import { takeToken } from './page/token.js';
import { TranscriptView } from './page/transcript_view.js';

const CONFIG_EVERY_MS = 10_000;
const AFTER_GOODBYE_MS = 700;

/** @returns {any} */
const byId = (/** @type {string} */ id) => document.getElementById(id);
const storage = (/** @type {'localStorage' | 'sessionStorage'} */ name) => {
  try {
    return window[name];
  } catch {
    return null; // the browser forbids it
  }
};

const token = takeToken(location, history, storage('sessionStorage'));
const api = new Api({ token });
const handover = new Handover(storage('sessionStorage'));
/** The call that this page has left when it was reloaded, as long as it can be taken up. */
let left = handover.take(Date.now());
/** @type {import('./client/api.js').ServerConfig | null} */
let config = null;
/** Whether the call that is drawn has been live before. */
let settled = false;
/** What the agent is waiting for, in words; '' where the state says it all. */
let progress = '';

const settings = new Settings(
  {
    persona: byId('persona'),
    note: byId('persona-note'),
    voice: byId('voice'),
    count: byId('persona-count'),
    presets: byId('presets'),
    fields: byId('settings-fields'),
  },
  storage('localStorage'),
);
const transcriptView = new TranscriptView({
  list: byId('transcript'),
  announcer: byId('announcer'),
  empty: byId('transcript-empty'),
});
const latencyView = new LatencyView({ root: byId('latency'), figure: byId('latency-figure'), parts: byId('latency-parts') });

const conversation = new Conversation({
  audio: byId('audio'),
  newClient: () => new RtcClient({ token }),
  listeners: {
    state: drawState,
    turn: (turn, change) => transcriptView.update(turn, change),
    queued(position) {
      progress = messages.queued(position);
      drawHint();
    },
    prefill({ done, total }) {
      progress = done > 0 && done < total ? messages.preparing({ done, total }) : '';
      drawHint();
    },
    latency: (estimate) => latencyView.show(estimate),
    ending: (seconds, reason) => showNotice(messages.ending(seconds, reason), 'warning'),
    ended(reason) {
      const message = messages.farewell(reason);
      if (message.expected) byId('hint').textContent = message.text;
      else showNotice(message, 'error');
    },
    microphone(state, code) {
      if (state !== 'live') showNotice(messages.withoutMicrophone(state, code), 'microphone');
      else if (byId('error').dataset.kind === 'microphone') hideNotice();
    },
    problem(problem) {
      const silenced = problem.code === 'sound_blocked';
      showNotice(messages.trouble(problem, config?.slots), silenced ? 'sound' : 'error');
      if (silenced) addEventListener('pointerdown', resumeSound, { once: true });
    },
  },
});
const stage = new Stage(conversation, {
  stage: byId('stage'),
  userMeter: byId('meter-user'),
  agentMeter: byId('meter-agent'),
});

// For tests and diagnostics, read only.
Object.defineProperty(window, 'rtc', {
  value: Object.freeze({
    get client() {
      return conversation.client;
    },
    get state() {
      return conversation.call.state;
    },
  }),
});

byId('call').addEventListener('click', () => (conversation.call.isActive ? conversation.end() : start()));
byId('mute').addEventListener('click', toggleMute);
addEventListener('keydown', (event) => {
  const typing = event.target instanceof Element && event.target.closest('input, textarea, select, [contenteditable]');
  if (event.key.toLowerCase() !== 'm' || event.repeat || event.ctrlKey || event.metaKey || event.altKey || typing) return;
  if (conversation.call.isActive) toggleMute();
});
// The client keeps its call for a page that comes back; what it takes lies in the tab only while nobody sees the page.
const putCall = () => handover.put(conversation.handOver(), Date.now(), config?.limits?.resume_s);
addEventListener('pagehide', putCall);
addEventListener('pageshow', ({ persisted }) => persisted && handover.put(null, Date.now()));
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'hidden') return putCall();
  handover.put(null, Date.now());
  resumeSound();
  refreshConfig();
});
setInterval(() => {
  const { durationMs } = conversation.call;
  byId('timer').textContent = durationMs === null ? '' : messages.clock(durationMs);
}, 500);
setInterval(() => {
  if (!conversation.call.isActive && document.visibilityState === 'visible') refreshConfig();
}, CONFIG_EVERY_MS);

if (!isSecureContext) showNotice(messages.trouble({ code: 'insecure_context' }), 'error');
else if (typeof RTCPeerConnection === 'undefined') showNotice(messages.trouble({ code: 'no_webrtc' }), 'error');
refreshConfig();
if (left) offerToContinue(left.untilMs - Date.now());

function start() {
  hideNotice();
  latencyView.clear();
  transcriptView.clear();
  if (left) resume(left);
  else conversation.start(settings.chosen());
}

/**
 * By itself where the browser gives the microphone without a word; else with a gesture, which it wants to see.
 *
 * @param {number} forMs
 */
async function offerToContinue(forMs) {
  setTimeout(() => {
    left = null;
    drawState(conversation.call.state);
  }, forMs);
  drawState('ready');
  if ((await isMicrophoneGranted()) && left && !conversation.call.isActive) start();
}

/** @param {import('./page/handover.js').HandedOver} call */
function resume(call) {
  left = null;
  progress = messages.RESUMING;
  byId('settings').open = false;
  transcriptView.began(performance.now() - call.durationMs);
  conversation.resume(call);
  drawMute();
}

function toggleMute() {
  conversation.mute(!conversation.muted);
  drawMute();
}

function resumeSound() {
  conversation.resumeSound();
  if (byId('error').dataset.kind === 'sound') hideNotice();
}

async function refreshConfig() {
  const engine = byId('engine');
  try {
    config = await api.config();
  } catch (error) {
    engine.dataset.health = 'down';
    if (conversation.call.isActive || byId('error').hasChildNodes()) return; // what is said already says more
    showNotice(messages.trouble(error instanceof CallError ? error : { message: String(error) }), 'server');
    return;
  }
  const { name, device, summary } = config.engine;
  engine.dataset.health = config.slots.free > 0 ? 'free' : 'full';
  byId('engine-name').textContent = name;
  byId('engine-device').textContent = messages.deviceName(device);
  byId('engine-slots').textContent = messages.slotsFree(config.slots);
  byId('engine-summary').textContent = summary;
  settings.offer(config.engine);
  if (byId('error').dataset.kind === 'server') hideNotice();
  const reach = config.connectivity;
  if (reach && !reach.ok && !byId('error').hasChildNodes()) showNotice(messages.noConnectivity(reach.message), 'server');
}

/** @param {import('./page/call.js').CallState} state */
function drawState(state) {
  const { isActive, phase } = conversation.call;
  document.body.dataset.state = state;
  document.body.dataset.phase = phase;
  document.body.classList.toggle('in-call', isActive);
  if (phase !== 'preparing' && phase !== 'reconnecting') progress = '';
  byId('status').textContent = message(state).title;
  drawHint();
  byId('call').dataset.state = isActive ? 'end' : 'start';
  byId('call-label').textContent = isActive ? messages.END : left ? messages.CONTINUE : messages.START;
  byId('mute').hidden = !isActive;
  drawMute();
  settings.lock(isActive);
  if (isActive) stage.start();
  else stage.stop();
  if (phase === 'live') transcriptView.began(performance.now() - (conversation.call.durationMs ?? 0));
  // Once the agent is there its words need the room; a call that fails leaves the choices in sight.
  if (phase === 'live' && !settled) byId('settings').open = false;
  settled = isActive && (settled || phase === 'live');
  if (phase === 'ended' || phase === 'failed') latencyView.clear();
  // How many slots are free has changed; after a call, a moment later than its goodbye.
  if (phase === 'live') refreshConfig();
  if (phase === 'ended' || phase === 'failed') setTimeout(refreshConfig, AFTER_GOODBYE_MS);
}

/** @param {import('./page/call.js').CallState} state */
function message(state) {
  return state === 'ready' && left ? messages.CAN_CONTINUE : messages.STATES[state];
}

function drawHint() {
  const { state, isActive } = conversation.call;
  byId('hint').textContent = isActive && conversation.muted ? messages.MUTED : progress || message(state).text;
}

function drawMute() {
  const { muted } = conversation;
  byId('mute').setAttribute('aria-pressed', String(muted));
  byId('mute-label').textContent = muted ? messages.UNMUTE_LABEL : messages.MUTE_LABEL;
  document.body.dataset.muted = String(muted && conversation.call.isActive);
  drawHint();
}

/**
 * @param {messages.Message} message
 * @param {'error' | 'warning' | 'server' | 'sound' | 'microphone'} kind `server` goes away when the server is well, `sound`
 *   on a gesture, `microphone` when that is back, for which it has a button.
 */
function showNotice({ title, text }, kind) {
  const notice = byId('error');
  if (notice.dataset.kind === kind && notice.textContent?.startsWith(title + text)) return; // don't read it out again
  const head = document.createElement('strong');
  head.textContent = title;
  const body = document.createElement('p');
  body.textContent = text;
  notice.dataset.kind = kind;
  notice.replaceChildren(head, body);
  if (kind === 'microphone') notice.append(microphoneButton());
}

function microphoneButton() {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = messages.MICROPHONE_AGAIN;
  button.addEventListener('click', () => conversation.reopenMicrophone());
  return button;
}

function hideNotice() {
  byId('error').replaceChildren();
}
