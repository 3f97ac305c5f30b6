import { FIGURES } from './figures.js';

/**
 * What helps somebody else to understand a call that went badly, as text to paste: no key, no address, no word that
 * was spoken, no persona.
 *
 * @typedef {object} Situation
 * @property {Date} at
 * @property {import('../client/api.js').ServerConfig | null} server
 * @property {string} state
 * @property {string | null} sessionId
 * @property {number | null} durationMs
 * @property {boolean} muted
 * @property {string} voice
 * @property {number} personaChars
 * @property {import('./figures.js').Figures} figures
 * @property {import('./latency.js').LatencyEstimate | null} latency
 * @property {import('../client/stats.js').CallStats | null} stats
 * @property {MediaTrackSettings | null} microphone
 * @property {Note[]} notes
 * @property {Browser} browser
 *
 * @typedef {{at: string, what: string}} Note
 * @typedef {{userAgent: string, languages: readonly string[], isSecure: boolean, isOnline: boolean, canRecord: boolean, canChooseSpeaker: boolean}} Browser
 */

/** @param {Situation} situation */
export function diagnose(situation) {
  const { server, figures, latency, stats, microphone } = situation;
  const rounded = (/** @type {number} */ value) => Math.round(value * 1000) / 1000;
  const described = {
    at: situation.at.toISOString(),
    server: server && {
      version: server.version,
      protocol: server.protocol,
      engine: server.engine.name,
      device: server.engine.device,
      slots: server.slots,
      reachable: server.connectivity?.ok ?? null,
      relays: server.ice_servers?.length ?? 0,
    },
    call: {
      state: situation.state,
      session: situation.sessionId,
      duration_s: situation.durationMs === null ? null : Math.round(situation.durationMs / 1000),
      muted: situation.muted,
      voice: situation.voice,
      persona_chars: situation.personaChars,
    },
    path: stats && { local: stats.localCandidate, remote: stats.remoteCandidate, protocol: stats.protocol, round_trip_ms: stats.roundTripMs },
    received: stats && { packets: stats.packetsReceived, lost: stats.packetsLost, concealed_samples: stats.concealedSamples },
    delay_ms: latency && Object.fromEntries(latency.parts.map(({ part, ms }) => [part, rounded(ms)])),
    last_minute: Object.fromEntries(
      FIGURES.map((figure) => {
        const summary = figures.summary(figure);
        return [figure, summary && Object.fromEntries(Object.entries(summary).map(([key, value]) => [key, rounded(value)]))];
      }),
    ),
    microphone: microphone && {
      sample_rate: microphone.sampleRate,
      echo_cancellation: microphone.echoCancellation,
      noise_suppression: microphone.noiseSuppression,
      auto_gain: microphone.autoGainControl,
    },
    browser: situation.browser,
    events: situation.notes,
  };
  return `${JSON.stringify(described, null, 1)}\n`;
}

/** What happened, without a word of what was said. */
export class Notes {
  /** @type {Note[]} */
  kept = [];
  #clock;

  /** @param {() => Date} [clock] */
  constructor(clock = () => new Date()) {
    this.#clock = clock;
  }

  /** @param {import('./conversation.js').Conversation} conversation */
  follow(conversation) {
    conversation.on('server', (event) => this.server(event));
    conversation.on('state', (state) => this.add(`state ${state}`));
    conversation.on('microphone', (state, code) => this.add(`microphone ${state} ${code}`.trim()));
    conversation.on('ended', (reason) => this.add(`ended ${reason}`));
    conversation.on('problem', ({ code, message = '' }) => this.add(`problem ${code} ${message}`.trim()));
  }

  /** @param {any} event */
  server(event) {
    if (!TOLD.has(event.type)) return;
    this.add([event.type, event.reason ?? event.code ?? event.source ?? ''].filter(Boolean).join(' '));
  }

  /** @param {string} what */
  add(what) {
    this.kept.push({ at: this.#clock().toISOString().slice(11, 23), what });
    if (this.kept.length > MAX_NOTES) this.kept.shift();
  }
}

/** The newest ones stay. */
const MAX_NOTES = 100;
const TOLD = new Set([
  'session.created', 'session.queued', 'session.ready', 'session.degraded', 'session.resumed', 'session.engine_lost', 'session.ending',
  'session.ended', 'response.cancelled', 'barge_in', 'error',
]);
