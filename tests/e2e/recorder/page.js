// A caller as Moshi's and PersonaPlex's web clients are one: Ogg pages of opus-recorder go out as kind 1, and what comes
// back as kind 1 is decoded by its decoder. What was heard is kept for the test.
/* global Recorder */

const DIST = '/node_modules/opus-recorder/dist';
const RATE_HZ = 24_000;
const KIND = { handshake: 0, audio: 1, error: 5 };

const heard = [];
const early = [];
const decoder = new Worker(`${DIST}/decoderWorker.min.js`);
decoder.onmessage = ({ data }) => data && heard.push(data[0]);
decoder.postMessage({
  command: 'init',
  bufferLength: 960,
  decoderSampleRate: RATE_HZ,
  outputBufferSampleRate: RATE_HZ,
  resampleQuality: 0,
});

const recorder = new Recorder({
  encoderPath: `${DIST}/encoderWorker.min.js`,
  encoderApplication: 2049,
  encoderComplexity: 0,
  encoderFrameSize: 20,
  encoderSampleRate: RATE_HZ,
  maxFramesPerPage: 2,
  mediaTrackConstraints: { autoGainControl: false, echoCancellation: false, noiseSuppression: false },
  numberOfChannels: 1,
  resampleQuality: 3,
  streamPages: true,
});

let socket;

function connect() {
  socket = new WebSocket(`${location.origin.replace('http', 'ws')}/api/chat?text_prompt=&voice_prompt=NATF0.pt`);
  socket.binaryType = 'arraybuffer';
  // The page with the stream's header may be there before the socket is, and the socket before the agent.
  socket.onopen = () => early.splice(0).forEach((message) => socket.send(message));
  socket.onmessage = ({ data }) => {
    const message = new Uint8Array(data);
    if (message[0] === KIND.handshake) document.body.dataset.state = 'live';
    if (message[0] === KIND.audio) decoder.postMessage({ command: 'decode', pages: message.slice(1) });
    if (message[0] === KIND.error) console.error(new TextDecoder().decode(message.slice(1)));
  };
  socket.onclose = ({ code }) => {
    document.body.dataset.state = `closed ${code}`;
  };
}

recorder.ondataavailable = (page) => {
  const message = new Uint8Array(page.length + 1);
  message[0] = KIND.audio;
  message.set(page, 1);
  if (socket.readyState === WebSocket.OPEN) socket.send(message);
  else early.push(message);
};

document.querySelector('#talk').addEventListener('click', () => {
  connect();
  recorder.start();
});

window.caller = {
  /** Everything that was decoded so far, [n] float32 at 24 kHz in base64. */
  decoded() {
    const bytes = heard.flatMap((block) => [...new Uint8Array(block.buffer, block.byteOffset, block.byteLength)]);
    return btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), ''));
  },
  seconds: () => heard.reduce((samples, block) => samples + block.length, 0) / RATE_HZ,
  hangUp() {
    recorder.stop();
    socket.close(1000);
  },
};
