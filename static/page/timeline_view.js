import { strings } from './language.js';
import { COLUMN_MS, SPAN_MS, Timeline, example, excerpt, labels } from './timeline.js';
import { NONE, TurnTaking } from './turntaking.js';

/**
 * The picture of both voices: you above the line, the agent below it, where both speak at once in a third colour. Time
 * runs from left to right in every script. Before the first call an example explains it.
 *
 * @typedef {object} TimelineElements
 * @property {HTMLElement} figure
 * @property {HTMLCanvasElement} canvas
 * @property {HTMLElement} about Shown until there is a call.
 * @property {HTMLElement} counts
 */

/** The right edge is a little in the past, so that the newest column is there when it comes in sight. */
const BEHIND_MS = 200;
const LABEL_EVERY_MS = 4_000;
const CALM_EVERY_MS = 1_000;
const FAINT = 0.5;
const FONT_PX = 12;
const COLOURS = /** @type {const} */ (['user', 'agent', 'overlap', 'line', 'ink', 'card']);

export class TimelineView {
  #conversation;
  #elements;
  #timeline = new Timeline();
  #turns = this.#newTurns();
  #example = /** @type {Timeline | null} */ (example());
  #colours = /** @type {Record<(typeof COLOURS)[number], string>} */ ({});
  /** CSS pixels, and device pixels in one of them. */
  #size = { width: 0, height: 0, ratio: 1 };
  #calm = matchMedia('(prefers-reduced-motion: reduce)');
  #frame = 0;
  #drawnAtMs = -Infinity;
  #labelledAtMs = -Infinity;
  /** Where time stands still: at the end of a call. */
  #endedMs = SPAN_MS;

  /**
   * @param {TimelineElements} elements
   * @param {import('./conversation.js').Conversation} conversation
   */
  constructor(elements, conversation) {
    this.#elements = elements;
    this.#conversation = conversation;
    conversation.on('fresh', () => (this.#turns = this.#newTurns()));
    conversation.on('client', () => this.#begin(this.#turns.counts));
    conversation.on('levels', (levels) => {
      this.#timeline.levels(levels);
      this.#turns.levels(levels);
    });
    conversation.on('server', (event) => this.#onServer(event, performance.now()));
    conversation.on('state', () => (conversation.call.isActive ? this.#run() : this.#stop()));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#readColours());
    this.#calm.addEventListener('change', () => this.#draw());
    new ResizeObserver(() => this.#fit()).observe(elements.canvas);
    this.#readColours();
    elements.canvas.setAttribute('aria-label', strings.timeline.example);
  }

  /** @param {any} event @param {number} nowMs */
  #onServer(event, nowMs) {
    if (event.type === 'input.speech_started') this.#turns.userStarted(event, nowMs);
    else if (event.type === 'input.speech_stopped') this.#turns.userStopped(event, nowMs);
    else if (event.type === 'barge_in') this.#turns.bargeIn(nowMs);
    else if (event.type === 'response.cancelled') this.#turns.cancelled(event, nowMs);
  }

  /** What has happened so far in the conversation, for a page that goes on with it. */
  get counts() {
    return this.#turns.counts;
  }

  /** An earlier page has counted. @param {typeof NONE} [counts] */
  goOn(counts) {
    this.#turns = this.#newTurns(counts);
    this.#labelledAtMs = -Infinity;
    this.#tell();
  }

  #newTurns(counts = NONE) {
    const onMoment = (/** @type {import('./turntaking.js').Moment} */ moment, /** @type {'began' | 'changed' | 'removed'} */ change) => {
      this.#timeline.moment(moment, change);
      this.#tell();
    };
    return new TurnTaking(onMoment, counts);
  }

  /** @param {typeof NONE} counts */
  #begin(counts) {
    this.#example = null;
    this.#timeline.clear();
    this.#turns = this.#newTurns(counts);
    this.#elements.about.hidden = true;
    this.#elements.counts.hidden = false;
    this.#elements.figure.dataset.example = 'false';
    this.#labelledAtMs = -Infinity;
    this.#tell();
  }

  /** In words: the counts at once, the name of the picture not more often than somebody wants to read it. */
  #tell() {
    const { counts } = this.#turns;
    this.#elements.counts.textContent = strings.timeline.counts(counts);
    const now = performance.now();
    if (now - this.#labelledAtMs < LABEL_EVERY_MS) return;
    this.#labelledAtMs = now;
    this.#elements.canvas.setAttribute('aria-label', strings.timeline.label(strings.timeline.counts(counts)));
  }

  #run() {
    if (this.#frame) return;
    const step = (/** @type {number} */ nowMs) => {
      this.#frame = requestAnimationFrame(step);
      if (this.#calm.matches && nowMs - this.#drawnAtMs < CALM_EVERY_MS) return;
      this.#draw();
      if (nowMs - this.#labelledAtMs >= LABEL_EVERY_MS) this.#tell();
    };
    this.#frame = requestAnimationFrame(step);
  }

  #stop() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#endedMs = performance.now();
    this.#timeline.end(this.#endedMs);
    this.#labelledAtMs = -Infinity;
    this.#tell();
    this.#draw();
  }

  #readColours() {
    const style = getComputedStyle(this.#elements.canvas);
    for (const name of COLOURS) this.#colours[name] = style.getPropertyValue(`--${name}`).trim();
    this.#draw();
  }

  #fit() {
    const { canvas } = this.#elements;
    const ratio = devicePixelRatio || 1;
    this.#size = { width: canvas.clientWidth, height: canvas.clientHeight, ratio };
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    this.#draw();
  }

  #draw() {
    const context = this.#elements.canvas.getContext('2d');
    const { width, height, ratio } = this.#size;
    if (!context || !width || !height) return;
    this.#drawnAtMs = performance.now();
    const timeline = this.#example ?? this.#timeline;
    const isMoving = this.#conversation.call.isActive;
    const { spanMs, exampleEndMs } = excerpt(width);
    const rightMs = this.#example ? exampleEndMs : isMoving ? this.#drawnAtMs - BEHIND_MS : this.#endedMs;
    const toX = (/** @type {number} */ ms) => width - ((rightMs - ms) / spanMs) * width;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.globalAlpha = this.#example ? FAINT : 1;
    this.#drawVoices(context, timeline, toX);
    context.globalAlpha = this.#example ? 0.8 : 1;
    this.#drawMarks(context, timeline, toX);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {Timeline} timeline
   * @param {(ms: number) => number} toX
   */
  #drawVoices(context, timeline, toX) {
    const { width, height } = this.#size;
    const { user, agent, overlap, line } = this.#colours;
    const middle = height / 2;
    const reach = middle - FONT_PX - 5;
    context.fillStyle = line;
    context.fillRect(0, middle - 0.5, width, 1);
    const step = toX(COLUMN_MS) - toX(0);
    for (const column of timeline.columns()) {
      const x = toX(column.startMs);
      if (x + step < 0 || x > width) continue;
      const bar = Math.max(step - (step > 3 ? 1 : 0), 0.75);
      context.fillStyle = column.both ? overlap : user;
      const up = column.user * reach;
      if (up > 0) context.fillRect(x, middle - 1 - up, bar, up);
      context.fillStyle = column.both ? overlap : agent;
      const down = column.agent * reach;
      if (down > 0) context.fillRect(x, middle + 1, bar, down);
    }
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {Timeline} timeline
   * @param {(ms: number) => number} toX
   */
  #drawMarks(context, timeline, toX) {
    const { width, height } = this.#size;
    const { ink, overlap } = this.#colours;
    context.font = `600 ${FONT_PX}px ${getComputedStyle(this.#elements.canvas).fontFamily}`;
    context.textBaseline = 'middle';
    context.direction = 'inherit';
    context.textAlign = 'left';
    /** @type {Record<string, string>} */
    const names = strings.timeline.marks;
    const textWidth = (/** @type {{kind: string}} */ { kind }) => context.measureText(names[kind]).width;
    for (const { mark, x, textX } of labels(timeline.marks(), { width, toX, textWidth })) {
      const isAbove = mark.by === 'user';
      context.fillStyle = overlap;
      context.fillRect(x - 0.5, isAbove ? FONT_PX + 3 : height / 2, 1.5, height / 2 - FONT_PX - 3);
      if (textX === null) continue;
      context.fillStyle = ink;
      context.fillText(names[mark.kind], textX, isAbove ? FONT_PX / 2 + 1 : height - FONT_PX / 2 - 1);
    }
  }
}
