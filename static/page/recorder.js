/**
 * Both sides of a call in one stereo file, made in the page: you on the left, the agent on the right. Nothing of it
 * leaves the browser.
 *
 * WebAudio only copies what the call plays by other means; where it is missing there is a call but no recording.
 */

/** In the order of what other programs can read. */
const KINDS = [
  { type: 'audio/webm;codecs=opus', suffix: '.webm' },
  { type: 'audio/mp4', suffix: '.m4a' },
  { type: 'audio/ogg;codecs=opus', suffix: '.ogg' },
];
const BITS_PER_SECOND = 128_000;
/** What was recorded is safe from a crash of the recorder after so long. */
const PIECE_MS = 1_000;
const YOU = 0;
const AGENT = 1;

/** @typedef {{blob: Blob, suffix: string}} Recording */

export class Recorder {
  #context;
  #merger;
  #destination;
  #recorder;
  #kind;
  /** @type {Blob[]} */
  #pieces = [];
  /** @type {Map<number, MediaStreamAudioSourceNode>} */
  #sources = new Map();

  /** Whether this browser can do it. */
  static get isPossible() {
    return typeof AudioContext !== 'undefined' && typeof MediaRecorder !== 'undefined' && kind() !== undefined;
  }

  /**
   * To be made in a gesture, or the context may stay silent. Records from now on, silence at first. Throws where it
   * cannot.
   */
  constructor() {
    this.#kind = /** @type {typeof KINDS[0]} */ (kind());
    this.#context = new AudioContext();
    this.#merger = this.#context.createChannelMerger(2);
    this.#destination = this.#context.createMediaStreamDestination();
    this.#destination.channelCount = 2;
    this.#merger.connect(this.#destination);
    this.#context.resume().catch(() => {});
    try {
      this.#recorder = new MediaRecorder(this.#destination.stream, {
        mimeType: this.#kind.type,
        audioBitsPerSecond: BITS_PER_SECOND,
      });
      this.#recorder.addEventListener('dataavailable', ({ data }) => data.size && this.#pieces.push(data));
      this.#recorder.start(PIECE_MS);
    } catch (error) {
      this.#context.close();
      throw error;
    }
  }

  /**
   * Hear these from now on. The same streams again, or none yet, change nothing. To be called again and again: a phone
   * suspends the context (a call, another app), and it stays so until it is asked.
   *
   * @param {{you: MediaStream | null, agent: MediaStream | null}} streams
   */
  hear({ you, agent }) {
    if (this.#context.state !== 'running') this.#context.resume().catch(() => {});
    this.#connect(YOU, you);
    this.#connect(AGENT, agent);
  }

  /** @returns {Promise<Recording>} The file; the recorder is done with. */
  async stop() {
    if (this.#recorder.state !== 'inactive') {
      const stopped = new Promise((resolve) => this.#recorder.addEventListener('stop', resolve, { once: true }));
      this.#recorder.stop();
      await stopped;
    }
    for (const source of this.#sources.values()) source.disconnect();
    this.#sources.clear();
    await this.#context.close().catch(() => {});
    return { blob: new Blob(this.#pieces, { type: this.#kind.type }), suffix: this.#kind.suffix };
  }

  /**
   * @param {number} channel
   * @param {MediaStream | null} stream
   */
  #connect(channel, stream) {
    const before = this.#sources.get(channel);
    if (!stream?.getAudioTracks().length || before?.mediaStream === stream) return;
    before?.disconnect();
    const source = this.#context.createMediaStreamSource(stream);
    // One channel of it: the merger's input takes a mono mix.
    source.connect(this.#merger, 0, channel);
    this.#sources.set(channel, source);
  }
}

function kind() {
  return KINDS.find(({ type }) => MediaRecorder.isTypeSupported(type));
}
