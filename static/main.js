/**
 * The page: makes its parts and ties them together. What each of them does, its own file says.
 */

import { RtcClient } from './client.js';
import { Api } from './client/api.js';
import { isMicrophoneGranted } from './client/microphone.js';
import { CallView } from './page/call_view.js';
import { Conversation } from './page/conversation.js';
import { CopyButton } from './page/copy_button.js';
import { Devices } from './page/devices.js';
import { DevicesView } from './page/devices_view.js';
import { DiagnosticsView } from './page/diagnostics_view.js';
import { FiguresView } from './page/figures_view.js';
import { Handover } from './page/handover.js';
import { KeepingView } from './page/keeping_view.js';
import { Keys } from './page/keys.js';
import { speak, strings } from './page/language.js';
import { LatencyView } from './page/latency_view.js';
import * as messages from './page/messages.js';
import { Notices } from './page/notices.js';
import { Panel } from './page/panel.js';
import { Redial } from './page/redial.js';
import { SelfTestView } from './page/selftest_view.js';
import { ServerView } from './page/server_view.js';
import { Settings } from './page/settings.js';
import { Stage } from './page/stage.js';
import { TimelineView } from './page/timeline_view.js';
import { takeToken } from './page/token.js';
import { TranscriptView } from './page/transcript_view.js';
import { VoiceSample } from './page/voice_sample.js';
import { WakeLock } from './page/wake_lock.js';

/** @returns {any} */
const byId = (/** @type {string} */ id) => document.getElementById(id);
const storage = (/** @type {'localStorage' | 'sessionStorage'} */ name) => {
  try {
    return window[name];
  } catch {
    return null; // the browser forbids it
  }
};

speak(document);

const token = takeToken(location, history, storage('sessionStorage'));
const handover = new Handover(storage('sessionStorage'));
/** The call that this page has left when it was reloaded, as long as it can be taken up. */
let left = handover.take(Date.now());

const conversation = new Conversation({
  audio: byId('audio'),
  newClient: () => new RtcClient({ token }),
  /** @returns {Promise<MediaStream>} */
  microphone: () => devicesView.openMicrophone(),
});
const devices = new Devices(storage('localStorage'));
const devicesView = new DevicesView(
  { ask: byId('devices-ask'), microphone: byId('microphone'), speaker: byId('speaker'), told: byId('devices-told') },
  conversation,
  devices,
  byId('audio'),
);
const notices = new Notices(byId('error'));
const callView = new CallView(
  conversation,
  {
    status: byId('status'),
    hint: byId('hint'),
    prefill: byId('prefill'),
    call: byId('call'),
    callLabel: byId('call-label'),
    mute: byId('mute'),
    muteLabel: byId('mute-label'),
    timer: byId('timer'),
  },
  { start },
);
const settings = new Settings(
  {
    root: byId('settings'),
    persona: byId('persona'),
    note: byId('persona-note'),
    voice: byId('voice'),
    count: byId('persona-count'),
    presets: byId('presets'),
    fields: byId('settings-fields'),
    advanced: byId('advanced'),
    numbers: byId('advanced-numbers'),
  },
  storage('localStorage'),
  conversation,
);
const api = new Api({ token });
const voiceSample = new VoiceSample(
  { button: byId('voice-sample'), label: byId('voice-sample-label'), voice: byId('voice') },
  { api, notices, conversation },
);
new SelfTestView(
  { open: byId('selftest-open'), dialog: byId('selftest'), list: byId('selftest-list'), close: byId('selftest-close') },
  { api, conversation, openMicrophone: () => devicesView.openMicrophone(), speaker: () => devices.speaker.id },
);
new CopyButton(
  { copy: byId('link-copy'), told: byId('link-told'), text: byId('link-text') },
  () => location.href, // it holds no key: whoever opens it needs one of his own
  strings.link,
);
const server = new ServerView(
  {
    api,
    notices,
    conversation,
    onConfig(config) {
      settings.offer(config);
      voiceSample.offer(config.engine);
    },
  },
  {
    engine: byId('engine'),
    name: byId('engine-name'),
    device: byId('engine-device'),
    slots: byId('engine-slots'),
    summary: byId('engine-summary'),
  },
);
const transcript = new TranscriptView(
  { list: byId('transcript'), announcer: byId('announcer'), empty: byId('transcript-empty') },
  conversation,
);
new Panel({ panel: byId('panel'), settings: byId('settings'), words: byId('transcript') }, conversation);
new LatencyView(
  { root: byId('latency'), figure: byId('latency-figure'), parts: byId('latency-parts') },
  conversation,
);
new Stage(conversation, { stage: byId('stage'), userMeter: byId('meter-user'), agentMeter: byId('meter-agent') });
const figures = new FiguresView(byId('figures'), conversation);
new DiagnosticsView(
  { copy: byId('diagnostics-copy'), told: byId('diagnostics-told'), text: byId('diagnostics-text') },
  conversation,
  () => {
    const { voice = '', persona = '' } = settings.chosen();
    return { server: server.config, voice, personaChars: persona.length, figures: figures.figures };
  },
);
new TimelineView(
  {
    figure: byId('timeline'),
    canvas: byId('timeline-canvas'),
    about: byId('timeline-about'),
    counts: byId('timeline-counts'),
  },
  conversation,
);
new KeepingView(
  { record: byId('record'), recordLabel: byId('record-label'), menu: byId('keep'), files: byId('keep-files') },
  conversation,
  () => ({ ...settings.chosen(), engine: server.config?.engine.name, server: server.config?.version }),
);
new WakeLock(conversation);
new Keys(conversation, { hint: byId('keys-hint'), buttons: [byId('call'), byId('mute')] });
const redial = new Redial({ conversation, server, notices, dial: start });

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

conversation.on('ending', (seconds, reason) => notices.show(messages.ending(seconds, reason), 'warning'));
conversation.on('ended', (reason) => {
  if (redial.begin(reason)) return;
  const message = messages.farewell(reason);
  if (message.expected) callView.hint(message.text);
  else notices.show(message, 'error');
});
conversation.on('microphone', (state, code) => {
  if (state === 'live') return notices.hide('microphone');
  const again = { label: strings.microphone.again, press: () => conversation.reopenMicrophone() };
  notices.show(messages.withoutMicrophone(state, code), 'microphone', again);
});
conversation.on('problem', (problem) => {
  const silenced = problem.code === 'sound_blocked';
  notices.show(messages.trouble(problem, server.config?.slots), silenced ? 'sound' : 'error');
  if (silenced) addEventListener('pointerdown', resumeSound, { once: true });
});

// The client keeps its call for a page that comes back; what it takes lies in the tab only while nobody sees the page.
const putCall = () => handover.put(conversation.handOver(), Date.now(), server.config?.limits?.resume_s);
addEventListener('pagehide', putCall);
addEventListener('pageshow', ({ persisted }) => persisted && handover.put(null, Date.now()));
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'hidden') return putCall();
  handover.put(null, Date.now());
  resumeSound();
});

if (!isSecureContext) notices.show(messages.trouble({ code: 'insecure_context' }), 'error');
else if (typeof RTCPeerConnection === 'undefined') notices.show(messages.trouble({ code: 'no_webrtc' }), 'error');
callView.draw();
server.refresh();
if (left) offerToContinue(left.untilMs - Date.now());

function start() {
  notices.hide();
  transcript.clear();
  if (left) resume(left);
  else conversation.start(settings.chosen());
}

/**
 * By itself where the browser gives the microphone without a word; else with a gesture, which it wants to see.
 *
 * @param {number} forMs
 */
async function offerToContinue(forMs) {
  setTimeout(() => leave(), forMs);
  callView.canContinue = true;
  callView.draw();
  if ((await isMicrophoneGranted()) && left && !conversation.call.isActive) start();
}

function leave() {
  left = null;
  callView.canContinue = false;
  callView.draw();
}

/** @param {import('./page/handover.js').HandedOver} call */
function resume(call) {
  leave();
  callView.progress(strings.resuming);
  settings.close();
  transcript.began(performance.now() - call.durationMs);
  conversation.resume(call);
  callView.drawMute();
}

function resumeSound() {
  conversation.resumeSound();
  notices.hide('sound');
}
