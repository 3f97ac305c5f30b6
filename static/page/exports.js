/**
 * A call as a file: text to read, WebVTT to lay beside the recording, JSON for programs.
 *
 * @typedef {import('./chronicle.js').Passage} Passage
 * @typedef {{you: string, agent: string, interrupted: string}} Names
 */

/**
 * @param {Passage[]} passages
 * @param {Names} names
 * @param {string} [note] What is to be known of it first, in one line.
 */
export function toText(passages, names, note = '') {
  const lines = passages.map((passage) => `[${clock(passage.startMs)}] ${who(passage, names)}: ${said(passage, names)}\n`);
  return [note && `(${note})\n`, ...lines].join('');
}

/**
 * WebVTT (W3C, section 4): one cue for each turn, each word with the time at which it is heard.
 *
 * @param {Passage[]} passages
 * @param {Names} names
 * @param {string} [note] What is to be known of it first, in one line.
 */
export function toWebVtt(passages, names, note = '') {
  const cues = passages.map((passage, index) => {
    const { startMs, endMs } = passage;
    const words = passage.words.map(({ text, atMs }) => `${atMs > startMs && atMs < endMs ? `<${stamp(atMs)}>` : ''}${escape(text)}`);
    return `${index + 1}\n${stamp(startMs)} --> ${stamp(endMs)}\n<v ${escape(who(passage, names))}>${words.join(' ')}\n`;
  });
  return ['WEBVTT\n', ...(note ? [`NOTE ${escape(note)}\n`] : []), ...cues].join('\n');
}

/**
 * @param {object} call
 * @param {object} call.about What the call was: engine, persona, voice, when.
 * @param {Passage[]} call.passages
 * @param {import('./chronicle.js').Happening[]} call.happenings
 * @param {number} call.left Events that are not kept any more.
 * @param {number} call.turnsLeft The same of turns.
 */
export function toJson({ about, passages, happenings, left, turnsLeft }) {
  const turns = passages.map(({ side, words, startMs, endMs, interrupted }) => ({
    side,
    text: words.map(({ text }) => text).join(' '),
    start_ms: startMs,
    end_ms: endMs,
    interrupted,
    words: words.map(({ text, atMs, cut }) => ({ text, at_ms: atMs, ...(cut && { cut }) })),
  }));
  return `${JSON.stringify({ ...about, turns_left_out: turnsLeft, turns, events_left_out: left, events: happenings }, null, 1)}\n`;
}

/**
 * @param {Date} date
 * @param {string} suffix With its dot.
 */
export function fileName(date, suffix) {
  const two = (/** @type {number} */ value) => String(value).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `call-${day}-${two(date.getHours())}${two(date.getMinutes())}${suffix}`;
}

/** @param {Passage} passage @param {Names} names */
function who({ side }, names) {
  return side === 'agent' ? names.agent : names.you;
}

/** @param {Passage} passage @param {Names} names */
function said({ words, interrupted }, names) {
  return words.map(({ text }) => text).join(' ') + (interrupted ? ` (${names.interrupted})` : '');
}

/** @param {number} ms */
function clock(ms) {
  return stamp(ms).slice(0, -4).replace(/^00:/, '');
}

/** hh:mm:ss.ttt @param {number} ms */
function stamp(ms) {
  return new Date(ms).toISOString().slice(11, -1);
}

/** What would end a cue or begin a tag in it. @param {string} text */
function escape(text) {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/\s+/g, ' ');
}
