/**
 * What a browser does to a page, and above all what a phone's does: hides it, freezes it, puts it away and takes it out
 * again, changes its network and its headset. One listener for all of it, taken off by `stop`.
 *
 * @typedef {object} LifecycleListeners
 * @property {() => void} visible The page can be seen again, or was thawed.
 * @property {() => void} leaving The page goes away: it is closed, reloaded, or kept for the way back.
 * @property {() => void} back The page that went away is shown again, as it was.
 * @property {() => void} network There is a network again, or another one.
 * @property {() => void} devices A microphone or speaker came or went.
 *
 * @typedef {object} Surroundings The browser's own, or a test's. All of it may be missing.
 * @property {EventTarget} [window]
 * @property {(EventTarget & {visibilityState: string})} [document]
 * @property {{onLine?: boolean, connection?: EventTarget & {type?: string}, mediaDevices?: EventTarget}} [navigator]
 */

/** @returns {Surroundings} */
export function surroundings() {
  const { window, document, navigator } = /** @type {any} */ (globalThis);
  return { window, document, navigator };
}

export class Lifecycle {
  #listeners;
  #around;
  #stop = new AbortController();

  /**
   * @param {LifecycleListeners} listeners
   * @param {Surroundings} around
   */
  constructor(listeners, around) {
    this.#listeners = listeners;
    this.#around = around;
  }

  /** Listen until `stop`. */
  start() {
    const { window, document, navigator } = this.#around;
    const listeners = this.#listeners;
    const { signal } = this.#stop;
    const on = (/** @type {EventTarget | undefined} */ target, /** @type {string} */ type, /** @type {(event: any) => void} */ handle) =>
      target?.addEventListener(type, handle, { signal });

    on(document, 'visibilitychange', () => this.isVisible && listeners.visible());
    on(document, 'resume', listeners.visible);
    on(window, 'pagehide', listeners.leaving);
    on(window, 'pageshow', ({ persisted }) => persisted && listeners.back());
    on(window, 'online', listeners.network);
    on(navigator?.mediaDevices, 'devicechange', listeners.devices);
    // It changes too when only its estimate of the speed does.
    const connection = navigator?.connection;
    let type = connection?.type;
    on(connection, 'change', () => {
      if (connection?.type === type) return;
      type = connection?.type;
      if (type !== 'none') listeners.network();
    });
  }

  get isVisible() {
    return this.#around.document?.visibilityState !== 'hidden';
  }

  /** False only where the browser knows that there is no network. */
  get isOnline() {
    return this.#around.navigator?.onLine !== false;
  }

  stop() {
    this.#stop.abort();
  }
}
