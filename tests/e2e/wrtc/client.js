// A caller on libwebrtc without a browser. Reads one command a line: connect, restart, heard, close; answers each with
// one line of JSON. It says a tone of 440 Hz for ever.
'use strict';

const readline = require('node:readline');
const wrtc = require('@roamhq/wrtc');

const RATE_HZ = 48_000;
const BLOCK_SAMPLES = 480;
const HEARD_BLOCKS = 6_000; // the last minute

const url = process.argv[2];
const peer = new wrtc.RTCPeerConnection({});
const source = new wrtc.nonstandard.RTCAudioSource();
const events = [];
const heard = [];
let sessionId = '';
let said = 0;

peer.addTrack(source.createTrack());
const channel = peer.createDataChannel('events');
channel.onmessage = ({ data }) => events.push(...[JSON.parse(data)].flat());
peer.ontrack = ({ track }) => {
  new wrtc.nonstandard.RTCAudioSink(track).ondata = ({ samples, channelCount }) => {
    heard.push(samples.filter((_, index) => index % channelCount === 0));
    if (heard.length > HEARD_BLOCKS) heard.shift();
  };
};

const startedMs = performance.now();
const speaking = setInterval(() => {
  // Timers come late; the sound must not.
  while (said * 1000 < (performance.now() - startedMs) * RATE_HZ) {
    const samples = new Int16Array(BLOCK_SAMPLES);
    for (let at = 0; at < BLOCK_SAMPLES; at += 1) samples[at] = 6000 * Math.sin((2 * Math.PI * 440 * (said + at)) / RATE_HZ);
    said += BLOCK_SAMPLES;
    source.onData({ samples, sampleRate: RATE_HZ, bitsPerSample: 16, channelCount: 1, numberOfFrames: BLOCK_SAMPLES });
  }
}, 10);

async function exchange(method, path, options) {
  await peer.setLocalDescription(await peer.createOffer(options));
  const response = await fetch(url + path, {
    method,
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ sdp: peer.localDescription.sdp, type: 'offer' }),
  });
  const body = await response.json();
  if (!response.ok) throw new Error(`${response.status} ${body.code}: ${body.message}`);
  await peer.setRemoteDescription({ type: 'answer', sdp: body.sdp });
  return body;
}

async function until(what, isTrue) {
  for (let tries = 0; tries < 1000; tries += 1) {
    if (isTrue()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`no ${what} within 10 s`);
}

const COMMANDS = {
  async connect() {
    ({ id: sessionId } = await exchange('POST', '/v1/sessions'));
    await until('connection', () => peer.connectionState === 'connected');
    await until('live session', () => events.some(({ type }) => type === 'session.ready'));
    return { id: sessionId, offer: peer.localDescription.sdp, answer: peer.remoteDescription.sdp };
  },
  async restart() {
    const before = peer.remoteDescription.sdp;
    await exchange('PATCH', `/v1/sessions/${sessionId}`, { iceRestart: true });
    await until('checks', () => ['connected', 'completed'].includes(peer.iceConnectionState));
    return { before, answer: peer.remoteDescription.sdp };
  },
  async heard() {
    const pcm = Buffer.concat(heard.map((block) => Buffer.from(block.buffer, block.byteOffset, block.byteLength)));
    const received = [...(await peer.getStats()).values()].find((report) => report.type === 'inbound-rtp');
    return { pcm: pcm.toString('base64'), lost: received?.packetsLost ?? 0, received: received?.packetsReceived ?? 0, events };
  },
  async close() {
    clearInterval(speaking);
    peer.close();
    setTimeout(() => process.exit(0), 300);
    return {};
  },
};

const input = readline.createInterface({ input: process.stdin });
input.on('line', async (line) => {
  let answer;
  try {
    answer = await COMMANDS[line.trim()]();
  } catch (error) {
    answer = { error: String(error.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
});
input.on('close', () => process.exit(0));
