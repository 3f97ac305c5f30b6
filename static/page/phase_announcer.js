import * as messages from './messages.js';

/**
 * Tells screen readers how the call goes: its phases, and not each time that one of the two begins or stops to speak, which
 * they hear themselves.
 */
export class PhaseAnnouncer {
  /**
   * @param {Pick<import('./conversation.js').Conversation, 'on' | 'call' | 'muted'>} conversation
   * @param {HTMLElement} region A live region that nobody sees.
   */
  constructor(conversation, region) {
    let { phase: told } = conversation.call;
    conversation.on('state', () => {
      const { phase } = conversation.call;
      if (phase === told) return;
      told = phase;
      region.textContent = messages.doing(phase === 'live' ? 'listening' : phase, { isMuted: conversation.muted }).title;
    });
  }
}
