/** How long it is shown that something was copied. */
const TOLD_MS = 3_000;

/** A button that copies a text; where the browser gives no clipboard the text is shown, to be copied by hand. */
export class CopyButton {
  /**
   * @param {object} elements
   * @param {HTMLElement} elements.copy
   * @param {HTMLElement} elements.told A live region.
   * @param {HTMLInputElement | HTMLTextAreaElement} elements.text
   * @param {() => string} make
   * @param {{copied: string, byHand: string}} says
   */
  constructor({ copy, told, text }, make, { copied, byHand }) {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    copy.addEventListener('click', async () => {
      const made = make();
      try {
        await navigator.clipboard.writeText(made);
        text.hidden = true;
        told.textContent = copied;
      } catch {
        text.value = made;
        text.hidden = false;
        text.focus();
        text.setSelectionRange(0, made.length, 'backward'); // its beginning is in sight
        text.scrollLeft = 0;
        told.textContent = byHand;
      }
      clearTimeout(timer);
      timer = setTimeout(() => (told.textContent = ''), TOLD_MS);
    });
  }
}
