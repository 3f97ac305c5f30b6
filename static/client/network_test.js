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
 * @param {AbortSignal} [parts.signal] Gives it up; what is under way is not waited for.
 * @returns {Promise<NetworkResult>}
 * @throws {CallError} `no_webrtc`, `ice_failed`, `cancelled`, and what the server refuses with.
 */
export async function testNetwork({ api, PeerConnection = globalThis.RTCPeerConnection, iceServers = [], signal }) {
  if (!PeerConnection) throw new CallError('no_webrtc', 'this browser has no RTCPeerConnection');
  if (signal?.aborted) throw givenUp();
  const over = new AbortController();
  const orGivenUp = racing(signal, over.signal);
  /** @type {RTCPeerConnection | null} */
  let peer = null;
  try {
    const servers = await orGivenUp(api.iceServers());
    peer = new PeerConnection({ bundlePolicy: 'max-bundle', iceServers: [...servers, ...iceServers] });
    const answered = firstMessage(peer, peer.createDataChannel('connectivity'), over.signal);
    answered.catch(() => {}); // it may fail while the answer is waited for, which fails first then
    await orGivenUp(peer.setLocalDescription());
    const { sdp } = await orGivenUp(api.testConnectivity(peer.localDescription?.sdp ?? ''));
    await orGivenUp(peer.setRemoteDescription({ type: 'answer', sdp }));
    const { address = '' } = JSON.parse(await orGivenUp(answered));
    const { localCandidate, protocol, roundTripMs } = readStats(/** @type {any} */ (await orGivenUp(peer.getStats())));
    return { isRelayed: localCandidate === 'relay', protocol, roundTripMs, address: String(address) };
  } catch (cause) {
    throw cause instanceof CallError ? cause : new CallError('connect_failed', String(cause), { cause });
  } finally {
    over.abort();
    peer?.close();
  }
}

/**
 * @param {AbortSignal | undefined} signal
 * @param {AbortSignal} over Nobody listens to `signal` any more.
 * @returns {<T>(work: Promise<T>) => Promise<T>} Waits for it, but not beyond `signal`.
 */
function racing(signal, over) {
  /** @type {Promise<never>} */
  const gaveUp = new Promise((_, reject) => signal?.addEventListener('abort', () => reject(givenUp()), { signal: over }));
  gaveUp.catch(() => {}); // nothing may be waited for just then
  return (work) => Promise.race([gaveUp, work]);
}

/**
 * @param {RTCPeerConnection} peer
 * @param {RTCDataChannel} channel
 * @param {AbortSignal} over It is not waited for any more.
 * @returns {Promise<string>}
 */
function firstMessage(peer, channel, over) {
  return new Promise((resolve, reject) => {
    const noWay = (/** @type {string} */ why) => reject(new CallError('ice_failed', why));
    const timer = setTimeout(() => noWay(`no connection within ${TIMEOUT_MS / 1000} s`), TIMEOUT_MS);
    over.addEventListener('abort', () => clearTimeout(timer));
    const on = (/** @type {EventTarget} */ target, /** @type {string} */ type, /** @type {(event: any) => void} */ handle) =>
      target.addEventListener(type, handle, { signal: over });
    on(channel, 'message', ({ data }) => String(data).includes(KIND) && resolve(String(data)));
    on(peer, 'connectionstatechange', () => {
      if (peer.connectionState === 'failed') noWay('ICE found no way to the server');
    });
  });
}

function givenUp() {
  return new CallError('cancelled', 'the test was given up');
}
