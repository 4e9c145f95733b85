// Links a wallet. The wallet of the browser signs a text of the service, or the user has the text signed elsewhere.

import { Button, Group, Stack, Text, Textarea, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api } from '../../api/client';
import { accountOf, sign, useWallet, type Wallet } from '../../api/wallet';
import { CodeBlock } from '../../ui/code';
import { Form, useForm } from '../../ui/form';
import { Failure } from '../../ui/page';
import { identitiesKey } from './queries';

export function LinkWallet() {
  const [byHand, setByHand] = useState(false);
  const wallet = useWallet();
  return (
    <Stack>
      <Group>
        {wallet !== null && <LinkBrowserWallet wallet={wallet} />}
        <Button variant="default" size="xs" onClick={() => setByHand((now) => !now)} aria-expanded={byHand}>
          {wallet === null ? 'Link a wallet' : 'Link a wallet that is elsewhere'}
        </Button>
      </Group>
      {byHand && <LinkByHand onDone={() => setByHand(false)} />}
    </Stack>
  );
}

function LinkBrowserWallet({ wallet }: { wallet: Wallet }) {
  const queries = useQueryClient();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  async function go() {
    setBusy(true);
    setError(null);
    try {
      const address = await accountOf(wallet);
      const { message } = await challenge(address);
      await link(message, await sign(wallet, address, message));
      await queries.invalidateQueries({ queryKey: identitiesKey });
    } catch (thrown) {
      setError(thrown);
    } finally {
      setBusy(false);
    }
  }
  return (
    <>
      <Button size="xs" onClick={() => void go()} loading={busy}>
        Link this browser's wallet
      </Button>
      {error !== null && <Failure error={error} />}
    </>
  );
}

function LinkByHand({ onDone }: { onDone: () => void }) {
  const [address, setAddress] = useState('');
  const [message, setMessage] = useState('');
  const form = useForm(
    () => challenge(address.trim()),
    (made) => setMessage(made.message),
  );
  return (
    <Stack>
      <Form form={form} label="Get the text to sign" params={['address']}>
        <TextInput
          label="Address of the wallet"
          placeholder="0x…"
          value={address}
          onChange={(event) => setAddress(event.currentTarget.value)}
          error={form.of('address')}
        />
      </Form>
      {message !== '' && <Signature key={message} message={message} onDone={onDone} />}
    </Stack>
  );
}

function Signature({ message, onDone }: { message: string; onDone: () => void }) {
  const queries = useQueryClient();
  const [signature, setSignature] = useState('');
  const form = useForm(
    () => link(message, signature.trim()),
    () => {
      void queries.invalidateQueries({ queryKey: identitiesKey });
      onDone();
    },
  );
  return (
    <Form form={form} label="Link the wallet" params={['signature']}>
      <Text size="sm">
        Have the wallet sign exactly this text (EIP-191). The signature counts once, for 5 minutes. Read it first: it
        names this site and your user.
      </Text>
      <CodeBlock code={message} label="Text to sign" />
      <Textarea
        label="Signature"
        placeholder="0x…"
        autosize
        value={signature}
        onChange={(event) => setSignature(event.currentTarget.value)}
        error={form.of('signature')}
      />
    </Form>
  );
}

function challenge(address: string) {
  return answer(api.POST('/api/v1/user/me/identities/wallet/challenge', { body: { address } }));
}

function link(message: string, signature: string) {
  return answer(api.POST('/api/v1/user/me/identities/wallet', { body: { message, signature } }));
}
