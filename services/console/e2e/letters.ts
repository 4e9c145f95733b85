// The letters of a marketplace that writes them into a folder: SVC_MAIL_FOLDER.

import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { until } from './accounts';
import { needed } from './browser';

/** Waits for a letter of a kind to an address, and returns the link in it. */
export async function linkIn(kind: 'confirm' | 'reset', email: string): Promise<string> {
  const folder = needed('SVC_MAIL_FOLDER');
  let link = '';
  await until(`a letter of the kind ${kind} to ${email}`, async () => {
    const names = (await readdir(folder).catch(() => [])).filter((name) => name.includes(`-${kind}-`));
    for (const name of names.filter((each) => each.endsWith('.txt'))) {
      const text = await readFile(join(folder, name), 'utf8');
      if (text.includes(`To: ${email}\n`)) link = /^https?:\S+#token=\S+$/m.exec(text)?.[0] ?? '';
    }
    return link !== '';
  });
  return link;
}
