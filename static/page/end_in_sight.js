/** This near to the end counts as there. */
const NEAR_PX = 80;

/**
 * Keeps the end of a list in sight, whatever is added or however the page is turned, until the person scrolls back; and
 * again once the person is at the end. The list is measured once a frame, however often it changes.
 */
export class EndInSight {
  #list;
  #nextFrame;
  #follows = true;
  #isDue = false;
  /** Where the list was, and how large. */
  #top = 0;
  #size = '';
  /** Of all that is in it. */
  #height = 0;

  /**
   * @param {HTMLElement} list
   * @param {(step: () => void) => void} [nextFrame]
   */
  constructor(list, nextFrame = (step) => requestAnimationFrame(step)) {
    this.#list = list;
    this.#nextFrame = nextFrame;
    list.addEventListener('scroll', () => this.#onScroll());
    new ResizeObserver(() => this.#hold()).observe(list);
  }

  /** Another list begins. */
  restart() {
    this.#follows = true;
    this.follow();
  }

  /** Something of the list has changed. */
  follow() {
    if (this.#isDue) return;
    this.#isDue = true;
    this.#nextFrame(() => {
      this.#isDue = false;
      this.#hold();
    });
  }

  /** What comes into sight may turn out taller than it was taken for: it is looked at again until nothing changes. */
  #hold() {
    const list = this.#list;
    const { scrollHeight } = list;
    if (this.#follows) list.scrollTop = scrollHeight;
    this.#top = list.scrollTop;
    this.#size = size(list);
    if (scrollHeight === this.#height) return;
    this.#height = scrollHeight;
    this.follow();
  }

  #onScroll() {
    const { scrollHeight, scrollTop, clientHeight } = this.#list;
    if (scrollHeight - scrollTop - clientHeight < NEAR_PX) this.#follows = true;
    // Else it is the list that has moved: browsers hold what is in sight where it is, whatever comes and goes above it.
    else if (scrollTop < this.#top && !this.#isDue && this.#size === size(this.#list)) this.#follows = false;
    this.#top = scrollTop;
  }
}

/** @param {HTMLElement} list */
function size({ clientWidth, clientHeight }) {
  return `${clientWidth}x${clientHeight}`;
}
