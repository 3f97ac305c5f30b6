/**
 * The languages that the page speaks: the name of a file in this folder, and how the language calls itself. The first
 * one is spoken to people who prefer none of them.
 *
 * @type {Record<string, string>}
 */
export const LANGUAGES = { en: 'English' };
