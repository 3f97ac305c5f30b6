import assert from 'node:assert/strict';
import { test } from 'node:test';

import { CopyButton } from '../../static/page/copy_button.js';

test('a second press has its own time to be read', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  t.mock.getter(globalThis, 'navigator', () => ({ clipboard: { async writeText() {} } }));
  const elements = { copy: new EventTarget(), told: { textContent: '' }, text: {} };
  new CopyButton(elements, () => 'text', { copied: 'Copied', byHand: '' });
  const press = async () => {
    elements.copy.dispatchEvent(new Event('click'));
    await new Promise((resolve) => setImmediate(resolve));
  };
  await press();
  t.mock.timers.tick(2_000);
  await press();
  t.mock.timers.tick(2_000);
  assert.equal(elements.told.textContent, 'Copied');
  t.mock.timers.tick(1_000);
  assert.equal(elements.told.textContent, '');
});
