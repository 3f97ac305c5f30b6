import { CopyButton } from './copy_button.js';
import { diagnose, Notes } from './diagnostics.js';
import { strings } from './language.js';
import { Recorder } from './recorder.js';

/** The button that copies the diagnostics. */
export class DiagnosticsView {
  #conversation;
  #situation;
  #notes = new Notes();
  /** @type {import('./latency.js').LatencyEstimate | null} */
  #latency = null;
  /** @type {import('../client/stats.js').CallStats | null} */
  #stats = null;

  /**
   * @param {{copy: HTMLElement, told: HTMLElement, text: HTMLTextAreaElement}} elements
   * @param {import('./conversation.js').Conversation} conversation
   * @param {() => Pick<import('./diagnostics.js').Situation, 'server' | 'voice' | 'personaChars' | 'figures'>} situation
   */
  constructor(elements, conversation, situation) {
    this.#conversation = conversation;
    this.#situation = situation;
    this.#notes.follow(conversation);
    conversation.on('client', () => {
      this.#latency = this.#stats = null;
    });
    conversation.on('latency', (estimate) => (this.#latency = estimate));
    conversation.on('stats', (stats) => (this.#stats = stats));
    new CopyButton(elements, () => this.#describe(), strings.diagnostics);
  }

  #describe() {
    const { call, client, muted } = this.#conversation;
    return diagnose({
      ...this.#situation(),
      at: new Date(),
      state: call.state,
      sessionId: client?.sessionId ?? null,
      durationMs: call.durationMs,
      muted,
      latency: this.#latency,
      stats: this.#stats,
      microphone: client?.microphone?.getAudioTracks()[0]?.getSettings() ?? null,
      notes: this.#notes.kept,
      browser: {
        userAgent: navigator.userAgent,
        languages: navigator.languages,
        isSecure: isSecureContext,
        isOnline: navigator.onLine,
        canRecord: Recorder.isPossible,
        canChooseSpeaker: 'setSinkId' in HTMLMediaElement.prototype,
      },
    });
  }
}
