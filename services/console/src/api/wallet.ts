// The wallet that an extension puts into the browser (EIP-1193). It is a stranger's program, so nothing that it
// answers is taken for granted.

import { useEffect, useState } from 'react';

import { ApiError } from './error';

export interface Wallet {
  request: (call: { method: string; params?: unknown[] }) => Promise<unknown>;
}

function find(): Wallet | null {
  const found: unknown = Reflect.get(window, 'ethereum');
  if (typeof found !== 'object' || found === null) return null;
  const request: unknown = Reflect.get(found, 'request');
  if (typeof request !== 'function') return null;
  return { request: async (call) => Reflect.apply(request, found, [call]) as unknown };
}

/** The browser's wallet; null where it has none. Some come a moment after the page. */
export function useWallet(): Wallet | null {
  const [wallet, setWallet] = useState(find);
  useEffect(() => {
    const look = () => setWallet((now) => now ?? find());
    window.addEventListener('ethereum#initialized', look);
    const timer = window.setTimeout(look, 1000);
    return () => {
      window.removeEventListener('ethereum#initialized', look);
      window.clearTimeout(timer);
    };
  }, []);
  return wallet;
}

/** The address that the wallet's user lets this page see. */
export async function accountOf(wallet: Wallet): Promise<string> {
  const accounts = await ask(wallet, 'eth_requestAccounts');
  const address: unknown = Array.isArray(accounts) ? accounts[0] : undefined;
  if (typeof address !== 'string') throw failed('The wallet shows this page no address.');
  return address;
}

/** The wallet's signature of a text (EIP-191). */
export async function sign(wallet: Wallet, address: string, text: string): Promise<string> {
  const signature = await ask(wallet, 'personal_sign', [hexOf(text), address]);
  if (typeof signature !== 'string') throw failed('The wallet gave no signature.');
  return signature;
}

async function ask(wallet: Wallet, method: string, params?: unknown[]): Promise<unknown> {
  try {
    return await wallet.request(params === undefined ? { method } : { method, params });
  } catch (thrown) {
    const code: unknown = typeof thrown === 'object' && thrown !== null ? Reflect.get(thrown, 'code') : undefined;
    if (code === 4001) throw failed('You declined in the wallet. Nothing has changed.');
    if (code === -32002) throw failed('The wallet is already asking you. Open it and answer there.');
    throw failed('The wallet failed. Unlock it, then try again.');
  }
}

function failed(message: string): ApiError {
  return new ApiError(message, { status: 0, code: 'wallet_failed' });
}

/** A text's UTF-8 bytes, as wallets want them. */
function hexOf(text: string): string {
  return `0x${Array.from(new TextEncoder().encode(text), (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}
