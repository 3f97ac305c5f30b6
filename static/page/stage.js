/**
 * The two voices for the eye: orbs that swell with what is said, and meters that say the same in numbers.
 */
export class Stage {
  #conversation;
  #stage;
  #meters;
  #frame = 0;

  /**
   * @param {import('./conversation.js').Conversation} conversation
   * @param {{stage: HTMLElement, userMeter: HTMLMeterElement, agentMeter: HTMLMeterElement}} elements
   */
  constructor(conversation, { stage, userMeter, agentMeter }) {
    this.#conversation = conversation;
    this.#stage = stage;
    this.#meters = { user: userMeter, agent: agentMeter };
    conversation.on('state', () => (conversation.call.isActive ? this.start() : this.stop()));
  }

  /** Follow the levels until `stop`. */
  start() {
    if (this.#frame) return;
    const draw = (/** @type {number} */ now) => {
      this.#show('user', this.#conversation.userLevel.shown(now));
      this.#show('agent', this.#conversation.agentLevel.shown(now));
      this.#frame = requestAnimationFrame(draw);
    };
    this.#frame = requestAnimationFrame(draw);
  }

  stop() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#show('user', 0);
    this.#show('agent', 0);
  }

  /**
   * @param {'user' | 'agent'} side
   * @param {number} level
   */
  #show(side, level) {
    this.#stage.style.setProperty(`--${side}-level`, level.toFixed(3));
    this.#meters[side].value = Math.round(level * 100);
  }
}
