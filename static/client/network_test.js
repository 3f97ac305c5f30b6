import { CallError } from './errors.js';
import { readStats } from './stats.js';

/**
 * Would a call get through? The whole way of one, from ICE to the data channel, without a microphone, a slot or the
 * engine. The server closes it after ten seconds at the latest.
 *
 * @typedef {object} NetworkResult
 * @property {boolean} isRelayed By a TURN server, because there is no direct way.
 * @property {string | null} protocol To the server, or to the relay: udp, tcp or tls.
 * @property {number | null} roundTripMs
 * @property {string} address This browser's, as the server sees it.
 */

const TIMEOUT_MS = 15_000;
const KIND = 'connectivity.ok';

/**
 * @param {object} parts
 * @param {import('./api.js').Api} parts.api
 * @param {typeof globalThis.RTCPeerConnection} [parts.PeerConnection]
 * @param {RTCIceServer[]} [parts.iceServers] Beside those of the server.
 * @param {AbortSignal} [parts.signal]
 * @returns {Promise<NetworkResult>}
 * @throws {CallError} `no_webrtc`, `ice_failed`, `cancelled`, and what the server refuses with.
 */
export async function testNetwork({ api, PeerConnection = globalThis.RTCPeerConnection, iceServers = [], signal }) {
  if (!PeerConnection) throw new CallError('no_webrtc', 'this browser has no RTCPeerConnection');
  const goOn = () => {
    if (signal?.aborted) throw givenUp();
  };
  goOn();
  const servers = await api.iceServers();
  goOn();
  const peer = new PeerConnection({ bundlePolicy: 'max-bundle', iceServers: [...servers, ...iceServers] });
  try {
    const answered = firstMessage(peer, peer.createDataChannel('connectivity'), signal);
    answered.catch(() => {}); // it may fail while the answer is waited for, which fails first then
    await peer.setLocalDescription();
    goOn();
    const { sdp } = await api.testConnectivity(peer.localDescription?.sdp ?? '');
    goOn();
    await peer.setRemoteDescription({ type: 'answer', sdp });
    const { address = '' } = JSON.parse(await answered);
    const { localCandidate, protocol, roundTripMs } = readStats(/** @type {any} */ (await peer.getStats()));
    return { isRelayed: localCandidate === 'relay', protocol, roundTripMs, address: String(address) };
  } catch (cause) {
    throw cause instanceof CallError ? cause : new CallError('connect_failed', String(cause), { cause });
  } finally {
    peer.close();
  }
}

/**
 * @param {RTCPeerConnection} peer
 * @param {RTCDataChannel} channel
 * @param {AbortSignal} [signal]
 * @returns {Promise<string>}
 */
function firstMessage(peer, channel, signal) {
  return new Promise((resolve, reject) => {
    const over = new AbortController();
    const fail = (/** @type {CallError} */ error) => {
      clearTimeout(timer);
      over.abort();
      reject(error);
    };
    const noWay = (/** @type {string} */ why) => fail(new CallError('ice_failed', why));
    const timer = setTimeout(() => noWay(`no connection within ${TIMEOUT_MS / 1000} s`), TIMEOUT_MS);
    const on = (/** @type {EventTarget} */ target, /** @type {string} */ type, /** @type {(event: any) => void} */ handle) =>
      target.addEventListener(type, handle, { signal: over.signal });
    on(channel, 'message', ({ data }) => {
      if (!String(data).includes(KIND)) return;
      clearTimeout(timer);
      over.abort();
      resolve(String(data));
    });
    on(peer, 'connectionstatechange', () => {
      if (peer.connectionState === 'failed') noWay('ICE found no way to the server');
    });
    if (signal) on(signal, 'abort', () => fail(givenUp()));
  });
}

function givenUp() {
  return new CallError('cancelled', 'the test was given up');
}
