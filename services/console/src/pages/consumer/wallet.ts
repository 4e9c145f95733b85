// The wallet that an extension puts into the browser (EIP-1193). What it answers is a stranger's.

import { ApiError } from '../../api/error';

export interface Wallet {
  request: (call: { method: string; params?: unknown[] }) => Promise<unknown>;
}

/** The browser's wallet; undefined without one. */
export function browserWallet(): Wallet | undefined {
  const found = (window as { ethereum?: unknown }).ethereum;
  return isWallet(found) ? found : undefined;
}

function isWallet(value: unknown): value is Wallet {
  return typeof value === 'object' && value !== null && 'request' in value && typeof value.request === 'function';
}

/** The address that its user lets this page see. */
export async function accountOf(wallet: Wallet): Promise<string> {
  const accounts = await asked(wallet, 'eth_requestAccounts', []);
  const first: unknown = Array.isArray(accounts) ? accounts[0] : undefined;
  if (typeof first !== 'string') throw refused('The wallet shows this page no address.');
  return first;
}

/** The wallet's signature of a text. */
export async function sign(wallet: Wallet, address: string, text: string): Promise<string> {
  const bytes = new TextEncoder().encode(text);
  const hex = `0x${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
  const signature = await asked(wallet, 'personal_sign', [hex, address]);
  if (typeof signature !== 'string') throw refused('The wallet did not sign.');
  return signature;
}

async function asked(wallet: Wallet, method: string, params: unknown[]): Promise<unknown> {
  try {
    return await wallet.request({ method, params });
  } catch {
    throw refused('The wallet did not do it. Open it, look for a question of this site, then try again.');
  }
}

function refused(message: string): ApiError {
  return new ApiError(message, { status: 0, code: 'wallet_refused' });
}
