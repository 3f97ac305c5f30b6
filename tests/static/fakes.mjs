/** What stands for the browser, the server and the clock in these tests. */

import { mock } from 'node:test';

export class FakeChannel extends EventTarget {
  readyState = 'connecting';
  sent = [];

  constructor(label, options = {}) {
    super();
    Object.assign(this, { label, options });
  }

  send(text) {
    this.sent.push(JSON.parse(text));
  }

  open() {
    this.readyState = 'open';
    this.dispatchEvent(new Event('open'));
  }

  close() {
    this.readyState = 'closed';
    this.dispatchEvent(new Event('close'));
  }

  receive(message) {
    const data = typeof message === 'string' ? message : JSON.stringify(message);
    this.dispatchEvent(Object.assign(new Event('message'), { data }));
  }
}

export class FakePeer extends EventTarget {
  /** Every one that was made, the newest last. */
  static all = [];
  static get newest() {
    return FakePeer.all.at(-1);
  }

  connectionState = 'new';
  localDescription = null;
  closed = false;
  restarts = 0;
  packets = 0;
  tracks = [];
  replaced = [];
  receiver = { track: { kind: 'audio', enabled: true }, getSynchronizationSources: () => [{ rtpTimestamp: 4_800 }] };

  constructor(configuration) {
    super();
    this.configuration = configuration;
    FakePeer.all.push(this);
  }

  addTrack(track) {
    this.tracks.push(track);
    const replaceTrack = async (other) => {
      if (this.closed) throw new DOMException('the peer connection is closed', 'InvalidStateError');
      this.replaced.push(other);
    };
    return { replaceTrack };
  }

  addTransceiver(kind, { direction }) {
    this.tracks.push({ kind, direction });
  }

  createDataChannel(label, options) {
    const channel = new FakeChannel(label, options);
    if (label === 'events') this.channel = channel;
    else this[label] = channel;
    return channel;
  }

  getReceivers() {
    return [this.receiver];
  }

  restartIce() {
    this.restarts += 1;
  }

  async setLocalDescription() {
    this.localDescription = { type: 'offer', sdp: this.restarts ? `v=0 restart ${this.restarts}` : 'v=0 offer' };
  }

  async setRemoteDescription({ sdp }) {
    this.remoteSdp = sdp;
    this.onAnswer?.(sdp);
  }

  async getStats() {
    return new Map([
      ['s', { type: 'media-source', kind: 'audio', audioLevel: 0.5 }],
      ['i', { type: 'inbound-rtp', kind: 'audio', packetsReceived: this.packets }],
    ]);
  }

  hearAgent() {
    this.dispatchEvent(Object.assign(new Event('track'), { track: {}, streams: [{ of: this }] }));
  }

  become(connectionState) {
    this.connectionState = connectionState;
    this.dispatchEvent(new Event('connectionstatechange'));
  }

  /** The server answers and the network carries. */
  connect() {
    this.become('connected');
    this.channel.open();
    this.urgent.open();
  }

  close() {
    this.closed = true;
    this.connectionState = 'closed';
  }
}

export class FakeTrack extends EventTarget {
  kind = 'audio';
  enabled = true;
  stopped = false;

  stop() {
    this.stopped = true;
  }

  happens(type) {
    this.dispatchEvent(new Event(type));
  }
}

export class FakeStream {
  track = new FakeTrack();

  getTracks() {
    return [this.track];
  }

  getAudioTracks() {
    return [this.track];
  }
}

/** A window, document and navigator, to be prodded. */
export function fakeBrowser() {
  const around = {
    window: new EventTarget(),
    document: Object.assign(new EventTarget(), { visibilityState: 'visible' }),
    navigator: {
      onLine: true,
      connection: Object.assign(new EventTarget(), { type: 'wifi' }),
      mediaDevices: new EventTarget(),
    },
  };
  return {
    around,
    show(visibilityState) {
      around.document.visibilityState = visibilityState;
      around.document.dispatchEvent(new Event('visibilitychange'));
    },
    window: (type, fields = {}) => around.window.dispatchEvent(Object.assign(new Event(type), fields)),
    network(type) {
      around.navigator.connection.type = type;
      around.navigator.connection.dispatchEvent(new Event('change'));
    },
    devices: () => around.navigator.mediaDevices.dispatchEvent(new Event('devicechange')),
  };
}

export const json = (body, status = 200) => new Response(status === 204 ? null : JSON.stringify(body), { status });
export const refusal = (code, status) => json({ code, message: code }, status);

/** Let everything that is ready to go on go on. */
export async function settle() {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

/**
 * Timers, clocks and timeouts that stand still until `advance`. Undone by `mock.timers.reset` and `mock.restoreAll`.
 */
export function virtualTime() {
  let nowMs = 10_000;
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  mock.method(performance, 'now', () => nowMs);
  mock.method(AbortSignal, 'timeout', (ms) => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new DOMException('too late', 'TimeoutError')), ms);
    return controller.signal;
  });
  return {
    now: () => nowMs,
    /** @param {(nowMs: number) => void} [each] Called every 20 ms. */
    async advance(ms, each = () => {}) {
      for (let passed = 0; passed < ms; passed += 20) {
        nowMs += 20;
        each(nowMs);
        mock.timers.tick(20);
        await settle();
      }
    },
  };
}

/** An answer that never comes. */
export const never = (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
