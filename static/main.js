/**
 * The page: makes its parts and ties them together. What each of them does, its own file says.
 */

import { RtcClient } from './client.js';
import { Api } from './client/api.js';
import { isMicrophoneGranted } from './client/microphone.js';
import { CallView } from './page/call_view.js';
import { Clip } from './page/clip.js';
import { Conversation } from './page/conversation.js';
import { CopyButton } from './page/copy_button.js';
import { Devices } from './page/devices.js';
import { DevicesView } from './page/devices_view.js';
import { DiagnosticsView } from './page/diagnostics_view.js';
import { FiguresView } from './page/figures_view.js';
import { Handover } from './page/handover.js';
import { HeldSound } from './page/held_sound.js';
import { KeepingView } from './page/keeping_view.js';
import { KeptFocus } from './page/kept_focus.js';
import { Keys } from './page/keys.js';
import { speak, strings } from './page/language.js';
import { LatencyView } from './page/latency_view.js';
import { LeftCall } from './page/left_call.js';
import { Leaving } from './page/leaving.js';
import * as messages from './page/messages.js';
import { Notices } from './page/notices.js';
import { Panel } from './page/panel.js';
import { PhaseAnnouncer } from './page/phase_announcer.js';
import { Redial } from './page/redial.js';
import { SelfTestView } from './page/selftest_view.js';
import { ServerView } from './page/server_view.js';
import { Settings } from './page/settings.js';
import { chars } from './page/setup.js';
import { Stage } from './page/stage.js';
import { TimelineView } from './page/timeline_view.js';
import { holdsToken, takeToken } from './page/token.js';
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
const focusHeir = () => byId(conversation.call.isActive ? 'mute' : 'call'); // a press too many ends no call
const notices = new Notices(byId('error'), focusHeir);
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
new PhaseAnnouncer(conversation, byId('phase'));
const left = new LeftCall(conversation, handover.take(Date.now()), {
  epochMs: Date.now(),
  onGone() {
    callView.canContinue = false;
    callView.draw();
  },
});
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
    told: byId('setup-told'),
  },
  storage('localStorage'),
  conversation,
  () => notices.hide('setup'),
);
const heldSound = new HeldSound(conversation, notices);
const api = new Api({ token });
const voiceSample = new VoiceSample(
  { button: byId('voice-sample'), label: byId('voice-sample-label'), voice: byId('voice') },
  { api, notices, conversation, makeClip: (onEnd) => new Clip({ speaker: () => devices.speaker.id, onEnd }) },
);
new SelfTestView(
  { open: byId('selftest-open'), dialog: byId('selftest'), list: byId('selftest-list'), close: byId('selftest-close') },
  { api, conversation, openMicrophone: () => devicesView.openMicrophone(), speaker: () => devices.speaker.id },
);
new CopyButton(
  { copy: byId('link-copy'), told: byId('link-told'), text: byId('link-text') },
  () => settings.link,
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
    onBack: () => callView.hint(strings.serverBack),
  },
  {
    engine: byId('engine'),
    name: byId('engine-name'),
    kind: byId('engine-kind'),
    device: byId('engine-device'),
    slots: byId('engine-slots'),
    summary: byId('engine-summary'),
  },
);
new TranscriptView(
  { list: byId('transcript'), announcer: byId('announcer'), empty: byId('transcript-empty') },
  conversation,
);
new Panel({ panel: byId('panel'), settings: byId('settings'), words: byId('transcript') }, conversation);
new LatencyView(
  { root: byId('latency'), name: byId('latency-name'), figure: byId('latency-figure'), parts: byId('latency-parts') },
  conversation,
);
new Stage(conversation, { stage: byId('stage'), userMeter: byId('meter-user'), agentMeter: byId('meter-agent') });
const figures = new FiguresView(byId('figures'), conversation);
new DiagnosticsView(
  { copy: byId('diagnostics-copy'), told: byId('diagnostics-told'), text: byId('diagnostics-text') },
  conversation,
  () => {
    const { voice = '', persona = '' } = settings.chosen();
    return { server: server.config, voice, personaChars: chars(persona), figures: figures.figures };
  },
);
const timeline = new TimelineView(
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
const redial = new Redial({
  conversation,
  server,
  notices,
  dial: () => conversation.startAgain(settings.chosen()),
  isBusy: () =>
    byId('selftest').open || byId('settings-fields').contains(document.activeElement) || settings.problem !== null,
});
new KeptFocus(focusHeir);

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

/** Whether the person has asked for a microphone that is gone, and waits for it. */
let isAsking = false;

notices.follow(conversation);
conversation.on('ending', (seconds, reason) => notices.show(messages.ending(seconds, reason), 'warning'));
conversation.on('ended', (reason) => {
  if (redial.begin(reason)) return;
  const message = messages.farewell(reason);
  if (message.expected) callView.hint(message.text);
  else notices.show(message, 'error');
});
conversation.on('microphone', (state, code) => {
  if (state === 'live') return notices.hide('microphone');
  const again = { label: strings.microphone.again, press: askForMicrophone };
  notices.show(messages.withoutMicrophone(state, code, isAsking), 'microphone', again);
});
conversation.on('problem', (problem) => {
  if (redial.failed(problem)) return;
  if (problem.code !== 'sound_blocked') notices.show(messages.trouble(problem, server.config?.slots), messages.kindOf(problem));
});

const leaver = { handOver, end: (/** @type {{atOnce?: boolean}} */ options) => conversation.end(options) };
new Leaving({ conversation: leaver, handover, left, keptS: () => server.config?.limits?.resume_s });
document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && heldSound.resume());

if (!isSecureContext) notices.show(messages.trouble({ code: 'insecure_context' }), 'error');
else if (typeof RTCPeerConnection === 'undefined') notices.show(messages.trouble({ code: 'no_webrtc' }), 'error');
callView.draw();
server.refresh();
if (left.call) offerToContinue();

// The whole page is made with the key.
addEventListener('hashchange', () => holdsToken(location.hash) && location.reload());

function start() {
  notices.hide();
  if (left.call) return resume(left.call);
  const wrong = settings.check();
  if (wrong) notices.show(wrong, 'setup');
  else conversation.start(settings.chosen());
}

async function askForMicrophone() {
  isAsking = true;
  await conversation.reopenMicrophone();
  isAsking = false;
}

/** What the next page needs to go on with this call. */
function handOver() {
  const call = conversation.handOver();
  return call && { ...call, counts: timeline.counts };
}

/** By itself where the browser gives the microphone without a word; else with a gesture, which it wants to see. */
async function offerToContinue() {
  callView.canContinue = true;
  callView.draw();
  if ((await isMicrophoneGranted()) && left.call && !conversation.call.isActive) start();
}

/** @param {import('./page/handover.js').HandedOver} call */
function resume(call) {
  callView.progress(strings.resuming);
  settings.close();
  conversation.resume(call);
  timeline.goOn(call.counts);
}
