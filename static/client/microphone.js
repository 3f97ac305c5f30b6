import { CallError } from './errors.js';

/**
 * Ask for the microphone, with what a live call needs. Echo cancellation works only if the answer is played through
 * an <audio> element.
 *
 * @param {{deviceId?: string, mediaDevices?: MediaDevices, isSecure?: boolean}} [options] `deviceId`: the one that is
 *   wished, as `enumerateDevices` names it; where it is not there, the default takes its place.
 * @returns {Promise<MediaStream>}
 * @throws {CallError} `insecure_context`, `microphone_denied`, `microphone_blocked_by_system`, `microphone_missing`,
 *   `microphone_busy`, `microphone_failed`
 */
export async function openMicrophone({
  deviceId = '',
  mediaDevices = globalThis.navigator?.mediaDevices,
  isSecure = globalThis.isSecureContext,
} = {}) {
  if (!isSecure) throw new CallError('insecure_context', 'browsers give no microphone to a page without HTTPS');
  if (!mediaDevices?.getUserMedia) throw new CallError('microphone_failed', 'this browser has no getUserMedia');
  const audio = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };
  try {
    if (!deviceId) return await mediaDevices.getUserMedia({ audio });
    // Chromium gives the default to a mere wish (`ideal`).
    return await mediaDevices.getUserMedia({ audio: { ...audio, deviceId: { exact: deviceId } } }).catch((error) => {
      if (microphoneError(error).code !== 'microphone_missing') throw error;
      return mediaDevices.getUserMedia({ audio });
    });
  } catch (cause) {
    throw microphoneError(cause);
  }
}

/** @param {unknown} cause What getUserMedia was rejected with. */
export function microphoneError(cause) {
  const { name = '', message = '' } = /** @type {{name?: string, message?: string}} */ (cause ?? {});
  const code = CODES[name] ?? 'microphone_failed';
  // Chromium tells a refusal by the operating system apart only in the message.
  const bySystem = code === 'microphone_denied' && /system/i.test(message);
  return new CallError(bySystem ? 'microphone_blocked_by_system' : code, `getUserMedia: ${name || 'failed'} ${message}`.trim(), {
    cause,
  });
}

/** @type {Record<string, string>} */
const CODES = {
  NotAllowedError: 'microphone_denied',
  SecurityError: 'microphone_denied',
  NotFoundError: 'microphone_missing',
  OverconstrainedError: 'microphone_missing',
  NotReadableError: 'microphone_busy',
  AbortError: 'microphone_busy',
};

/**
 * @param {{query?: (name: any) => Promise<{state: string}>}} [permissions]
 * @returns {Promise<boolean>} Whether the browser gives the microphone without asking; false where it does not say.
 */
export async function isMicrophoneGranted(permissions = globalThis.navigator?.permissions) {
  try {
    return (await permissions?.query?.({ name: 'microphone' }))?.state === 'granted';
  } catch {
    return false; // a browser that knows no such permission
  }
}
