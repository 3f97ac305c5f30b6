/**
 * What can go wrong in a call, as one error class with a `code` to match on.
 *
 * Codes of the server (`engine_full`, `unauthorized`, ...) come through unchanged. Codes of this side:
 * `insecure_context`, `no_webrtc`, `microphone_denied`, `microphone_blocked_by_system`, `microphone_missing`,
 * `microphone_busy`, `microphone_failed`, `no_microphone`, `server_unreachable`, `bad_answer`, `ice_failed`,
 * `connect_failed`, `cancelled`, `already_used`.
 */
export class CallError extends Error {
  /**
   * @param {string} code
   * @param {string} message What failed; for logs and as a last resort for people.
   * @param {{hint?: string, status?: number, retryAfterS?: number | null, cause?: unknown}} [details]
   */
  constructor(code, message, { hint = '', status = 0, retryAfterS = null, cause } = {}) {
    super(message, { cause });
    this.name = 'CallError';
    this.code = code;
    this.hint = hint;
    /** HTTP status, 0 where no answer came. */
    this.status = status;
    /** Seconds after which trying again makes sense, or null. */
    this.retryAfterS = retryAfterS;
  }
}
