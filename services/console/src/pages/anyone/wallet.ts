import { answer, api, type Schemas } from '../../api/client';
import { accountOf, sign, type Wallet } from '../../api/wallet';

/**
 * Signs in with a wallet (EIP-4361): the service makes a text, the wallet signs it, and the service opens a session. A
 * wallet that is seen for the first time opens an account, and the answer has its first key.
 */
export async function signInWithWallet(wallet: Wallet): Promise<Schemas['Session'] | Schemas['NewSession']> {
  const address = await accountOf(wallet);
  const { message } = await answer(api.POST('/api/v1/user/wallet/challenge', { body: { address } }));
  const signature = await sign(wallet, address, message);
  return answer(api.POST('/api/v1/user/wallet/login', { body: { message, signature } }));
}
