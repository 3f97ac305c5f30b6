import { strings } from './language.js';

const TOLD_MS = 3_000;

/** The button that copies a link to this set-up. It holds no key: whoever opens it needs one of his own. */
export class LinkView {
  /** @param {{copy: HTMLElement, told: HTMLElement, link: HTMLInputElement}} elements */
  constructor({ copy, told, link }) {
    copy.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(location.href);
        link.hidden = true;
        told.textContent = strings.link.copied;
      } catch {
        link.value = location.href;
        link.hidden = false;
        link.select();
        told.textContent = strings.link.byHand;
      }
      setTimeout(() => (told.textContent = ''), TOLD_MS);
    });
  }
}
