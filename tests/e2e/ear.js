/**
 * Records, beside the page and without a change to it, what the page hears (`agent`) and what its microphone gives
 * (`user`): one recording per call. Runs before the page's own scripts. Where the browser has no
 * MediaStreamTrackProcessor (Firefox), it only keeps the peer connections, for their statistics.
 */
(() => {
  const ear = { agent: [], user: [], microphones: [], peers: [] };
  Object.defineProperty(window, 'ear', { value: ear });

  async function record(track, recordings) {
    if (typeof MediaStreamTrackProcessor === 'undefined') return;
    const recording = { rate: 48000, startMs: Infinity, samples: 0, blocks: [] };
    recordings.push(recording);
    const reader = new MediaStreamTrackProcessor({ track, maxBufferSize: 1000 }).readable.getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const floats = new Float32Array(value.numberOfFrames);
      value.copyTo(floats, { planeIndex: 0, format: 'f32-planar' });
      recording.rate = value.sampleRate;
      value.close();
      recording.samples += floats.length;
      recording.blocks.push(Int16Array.from(floats, (sample) => Math.max(-1, Math.min(1, sample)) * 32767));
      // Blocks are read late, never early: the least is the truth.
      recording.startMs = Math.min(recording.startMs, performance.now() - (1000 * recording.samples) / recording.rate);
    }
  }

  /** The newest recording of a side, as base64 of its 16-bit samples. */
  ear.dump = (side) => {
    const { rate, startMs, blocks, samples } = ear[side].at(-1);
    const pcm = new Int16Array(samples);
    let at = 0;
    for (const block of blocks.slice()) {
      if (at + block.length > samples) break;
      pcm.set(block, at);
      at += block.length;
    }
    const bytes = new Uint8Array(pcm.buffer);
    let binary = '';
    for (let i = 0; i < bytes.length; i += 0x8000) binary += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
    return { rate, startMs, base64: btoa(binary) };
  };

  /** The newest call's statistics by type; the last report of a type wins. */
  ear.stats = async () => {
    const byType = {};
    for (const report of (await ear.peers.at(-1).getStats()).values()) byType[report.type] = report;
    return byType;
  };

  const NativePeerConnection = window.RTCPeerConnection;
  window.RTCPeerConnection = class extends NativePeerConnection {
    constructor(...settings) {
      super(...settings);
      ear.peers.push(this);
      this.addEventListener('track', ({ track }) => record(track, ear.agent));
    }
  };
  const devices = navigator.mediaDevices;
  if (!devices) return;
  const getUserMedia = devices.getUserMedia.bind(devices);
  /** What a microphone gives from now on. */
  ear.hearUser = (stream) => {
    for (const track of stream.getAudioTracks()) {
      ear.microphones.push(track);
      record(track, ear.user);
    }
    return stream;
  };
  devices.getUserMedia = async (constraints) => ear.hearUser(await getUserMedia(constraints));
})();
