import { isSendable } from '../client/api.js';

/**
 * The API key of a link such as `https://host/#token=...`. A fragment is never sent to a server and so never logged.
 */

const STORAGE_KEY = 'rtc_server.token';

/**
 * Take the key out of the address bar and keep it for this tab; without one in the link, the key kept earlier.
 *
 * @param {Pick<Location, 'hash' | 'pathname' | 'search'>} location
 * @param {Pick<History, 'replaceState'>} history
 * @param {Pick<Storage, 'getItem' | 'setItem'> | null} storage Null where the browser forbids storage.
 * @returns {string} '' where there is none.
 */
export function takeToken(location, history, storage) {
  const fragment = new URLSearchParams(location.hash.replace(/^#/, ''));
  const token = fragment.get('token');
  if (token === null) return attempt(() => storage?.getItem(STORAGE_KEY)) ?? '';
  fragment.delete('token');
  const rest = fragment.toString();
  history.replaceState(null, '', location.pathname + location.search + (rest ? `#${rest}` : ''));
  if (isSendable(token)) attempt(() => storage?.setItem(STORAGE_KEY, token)); // else the next visit may know better
  return token;
}

/**
 * Whether a key has come into the address of a page that is open: it is to be loaded with it.
 *
 * @param {string} hash
 */
export function holdsToken(hash) {
  return new URLSearchParams(hash.replace(/^#/, '')).has('token');
}

/**
 * @template T
 * @param {() => T} read
 */
function attempt(read) {
  try {
    return read();
  } catch {
    return null; // private modes throw on access
  }
}
