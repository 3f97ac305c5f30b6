/**
 * Who wants to know is told: typed events between the parts of the page.
 *
 * @template {Record<string, any[]>} Events Arguments by type.
 */
export class Emitter {
  /** @type {Map<keyof Events, Set<(...args: any[]) => void>>} */
  #handlers = new Map();

  /**
   * @template {keyof Events} T
   * @param {T} type
   * @param {(...args: Events[T]) => void} handle Must not throw.
   */
  on(type, handle) {
    const handlers = this.#handlers.get(type) ?? new Set();
    this.#handlers.set(type, handlers.add(handle));
  }

  /**
   * @template {keyof Events} T
   * @param {T} type
   * @param {Events[T]} args
   */
  emit(type, ...args) {
    for (const handle of this.#handlers.get(type) ?? []) handle(...args);
  }
}
