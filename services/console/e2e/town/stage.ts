// What a test of these flows does outside of pages: it sends from a wallet, and asks the test around it that time
// passes or that the verifier finds something.

import { until } from '../accounts';
import { needed } from '../browser';

/** The wallet of the provider: the second account of a development chain, which signs for whoever asks. */
export const wallet = needed('SVC_BENEFICIARY');

/** The account that every development chain begins with, which makes test dollars. */
const minter = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266';

/** Has the test around this one act, and returns what it answers. */
export async function stage<T>(path: string): Promise<T> {
  const response = await fetch(`${needed('SVC_STAGE_URL')}/${path}`, { method: 'POST' });
  if (!response.ok) throw new Error(`stage ${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

/** Sends a transaction of the wallet on a chain, as an extension of a browser would, and waits until it is final. */
export async function send(chain: number, to: string, data: string, from = wallet): Promise<void> {
  const hash = await ask<string>(chain, 'eth_sendTransaction', [{ from, to, data }]);
  await until(`transaction ${hash} is in a block`, async () => {
    const receipt = await ask<{ status: string } | null>(chain, 'eth_getTransactionReceipt', [hash]);
    if (receipt !== null && receipt.status !== '0x1') throw new Error(`transaction ${hash} failed`);
    return receipt !== null;
  });
  await mine(chain);
}

/** Makes what a chain has final at once: its own next blocks come a minute later. */
export async function mine(chain: number): Promise<void> {
  await ask(chain, 'anvil_mine', ['0x3']);
}

async function ask<T>(chain: number, method: string, params: unknown[]): Promise<T> {
  const url = needed('SVC_CHAIN_URLS')
    .split(',')
    .find((one) => one.startsWith(`${chain}=`))
    ?.slice(`${chain}=`.length);
  if (url === undefined) throw new Error(`chain ${chain}: it does not run`);
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const answer = (await response.json()) as { result: T; error?: { message: string } };
  if (answer.error !== undefined) throw new Error(`${method} on ${chain}: ${answer.error.message}`);
  return answer.result;
}

/** Gives the wallet test dollars, in millionths. */
export async function mint(chain: number, token: string, amount: number): Promise<void> {
  const word = (digits: string) => digits.padStart(64, '0');
  await send(chain, token, `0x40c10f19${word(wallet.slice(2))}${word(amount.toString(16))}`, minter);
}
