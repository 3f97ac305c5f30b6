/**
 * What the server says, message by message: each event once, in the server's order.
 *
 * A message is one event or an array of events. Every event has a number, `seq`, from 1 over all connections of a
 * conversation. What is urgent comes over a second channel too, and may overtake what was said before it; what was
 * missed comes again when a call is taken up. Whatever was seen already is left out here.
 *
 * @typedef {{type: string, seq?: number, [field: string]: any}} ServerEvent
 */

/** Urgent events that the ordered channel has not delivered yet; a handful at most. */
const MAX_AHEAD = 64;

export class Inbox {
  #last;
  /** @type {Set<number>} */
  #ahead = new Set();

  /** @param {number} [last] The number of the last event that was seen in an earlier life of the page. */
  constructor(last = 0) {
    this.#last = last;
  }

  /** Everything up to this number was seen. */
  get last() {
    return this.#last;
  }

  /**
   * @param {unknown} data As it came over a channel.
   * @param {boolean} [urgent] Whether it came over the unordered one.
   * @returns {ServerEvent[]} What is new in it. What is no event of this protocol is ignored.
   */
  read(data, urgent = false) {
    let value;
    try {
      value = JSON.parse(String(data));
    } catch {
      return [];
    }
    return [value].flat().filter((event) => typeof event?.type === 'string' && this.#isNew(event, urgent));
  }

  /**
   * @param {ServerEvent} event
   * @param {boolean} urgent
   */
  #isNew({ type, seq }, urgent) {
    if (typeof seq !== 'number') return true;
    if (type === 'session.created') {
      // Each connection begins with it, before what was missed: it says nothing about what was seen.
      if (seq === this.#last + 1) this.#last = seq;
      return true;
    }
    if (seq <= this.#last) return false;
    if (urgent) {
      if (this.#ahead.has(seq)) return false;
      this.#ahead.add(seq);
      if (this.#ahead.size > MAX_AHEAD) this.#ahead.delete(Math.min(...this.#ahead));
      return true;
    }
    this.#last = seq;
    const seen = this.#ahead.has(seq);
    for (const ahead of this.#ahead) if (ahead <= seq) this.#ahead.delete(ahead);
    return !seen;
  }
}
