import { diagnose, Notes } from './diagnostics.js';
import { strings } from './language.js';
import { Recorder } from './recorder.js';

/** How long "copied" is shown. */
const TOLD_MS = 3_000;

/** The button that copies the diagnostics; where the browser gives no clipboard they are shown, to be copied by hand. */
export class DiagnosticsView {
  #conversation;
  #elements;
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
    this.#elements = elements;
    this.#conversation = conversation;
    this.#situation = situation;
    this.#notes.follow(conversation);
    conversation.on('client', () => {
      this.#latency = this.#stats = null;
    });
    conversation.on('latency', (estimate) => (this.#latency = estimate));
    conversation.on('stats', (stats) => (this.#stats = stats));
    elements.copy.addEventListener('click', () => this.#copy());
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

  async #copy() {
    const { told, text } = this.#elements;
    const described = this.#describe();
    try {
      await navigator.clipboard.writeText(described);
      text.hidden = true;
      told.textContent = strings.diagnostics.copied;
    } catch {
      text.value = described;
      text.hidden = false;
      text.focus();
      text.select();
      told.textContent = strings.diagnostics.byHand;
    }
    setTimeout(() => (told.textContent = ''), TOLD_MS);
  }
}
