import { LANGUAGES } from '../strings/languages.js';

/**
 * What the page says, in the language of the person in front of it.
 *
 * @typedef {typeof import('../strings/en.js').default} Strings
 */

/**
 * The language to speak: what the address asks for (`?lang=de`), else the first of the person's own that is there.
 *
 * @param {readonly string[]} preferred Language tags (BCP 47), the dearest first.
 * @param {readonly string[]} spoken
 * @returns {string} One of `spoken`.
 */
export function choose(preferred, spoken) {
  for (const tag of preferred) {
    const wanted = tag.toLowerCase();
    const found = spoken.find((code) => code.toLowerCase() === wanted) ?? spoken.find((code) => code === wanted.split('-')[0]);
    if (found) return found;
  }
  return spoken[0];
}

const asked = new URLSearchParams(globalThis.location?.search ?? '').get('lang');
/** The tag of the language that is spoken. */
export const language = choose([...(asked ? [asked] : []), ...(globalThis.navigator?.languages ?? [])], Object.keys(LANGUAGES));

/** @type {Strings} */
export const strings = (await import(`../strings/${language}.js`)).default;

/**
 * Write the strings into the page, and tell it in which direction they run.
 *
 * @param {Document} document
 */
export function speak(document) {
  document.documentElement.lang = language;
  document.documentElement.dir = strings.direction;
  document.title = strings.page.title;
  /** @type {Record<string, string>} */
  const texts = strings.page;
  /** @type {[string, (element: HTMLElement, text: string) => void][]} */
  const places = [
    ['text', (element, text) => (element.textContent = text)],
    ['label', (element, text) => element.setAttribute('aria-label', text)],
    ['title', (element, text) => (element.title = text)],
    ['placeholder', (element, text) => element.setAttribute('placeholder', text)],
  ];
  for (const [place, write] of places) {
    for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(`[data-${place}]`))) {
      write(element, texts[element.dataset[place] ?? ''] ?? '');
    }
  }
}
