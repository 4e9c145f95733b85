// Signing in with a wallet (EIP-4361). The browser's wallet is a stranger's program, so nothing that it
// answers is taken for granted.

import { useEffect, useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { ApiError } from '../../api/error';

/** A wallet as EIP-1193 describes it. */
interface Wallet {
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

/**
 * Signs in: the service makes a text, the wallet signs it, and the service opens a session. A wallet that is
 * seen for the first time opens an account, and the answer has its first key.
 */
export async function signInWithWallet(wallet: Wallet): Promise<Schemas['Session'] | Schemas['NewSession']> {
  const accounts = await ask(wallet, 'eth_requestAccounts');
  const address: unknown = Array.isArray(accounts) ? accounts[0] : undefined;
  if (typeof address !== 'string') throw failed('The wallet named no account.');
  const { message } = await answer(api.POST('/api/v1/user/wallet/challenge', { body: { address } }));
  const signature = await ask(wallet, 'personal_sign', [hexOf(message), address]);
  if (typeof signature !== 'string') throw failed('The wallet gave no signature.');
  return answer(api.POST('/api/v1/user/wallet/login', { body: { message, signature } }));
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
