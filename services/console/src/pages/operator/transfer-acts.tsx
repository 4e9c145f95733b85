// What an operator decides about a transfer that is credited to nobody.

import { Group, TextInput } from '@mantine/core';
import { useState, type ReactNode } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { usd } from '../../format/amounts';
import { Id, Money } from '../../ui/text';
import { Act } from './act';
import { useChainName } from './chain-names';
import { useDone } from './lists';

type Transfer = Schemas['Deposit'];

export function TransferActs({ transfer }: { transfer: Transfer }) {
  if (transfer.state !== 'unmatched' && transfer.state !== 'denied') return null;
  return (
    <Group gap="xs">
      <Match transfer={transfer} />
      <Return transfer={transfer} />
    </Group>
  );
}

function useFacts(transfer: Transfer): [string, ReactNode][] {
  const name = useChainName();
  return [
    ['Transaction', <Id key="tx" value={transfer.transaction_hash} what="transaction" />],
    ['Chain', name(transfer.chain_id)],
    ['Sender', <Id key="sender" value={transfer.sender} what="address" />],
    ['Arrived', `${transfer.tokens} ${transfer.symbol}`],
    [
      'Worth when it came in',
      transfer.value_nano_usd === '0' ? 'not valued' : <Money key="worth" usd={usd(transfer.value_nano_usd)} />,
    ],
    ['Second person', 'None is needed'],
  ];
}

function Match({ transfer }: { transfer: Transfer }) {
  const done = useDone();
  const facts = useFacts(transfer);
  const [account, setAccount] = useState('');
  return (
    <Act
      label="Match"
      title="Credit this transfer to an account?"
      permission="pay"
      blocked={transfer.other_contract === '' ? '' : 'A token that is credited to nobody can only be returned.'}
      facts={facts}
      params={['account_id']}
      fields={(form) => (
        <TextInput
          label="Account id"
          description="Who gets the credit. The address belonged to the account that the list shows."
          value={account}
          onChange={(event) => setAccount(event.currentTarget.value)}
          error={form.of('account_id')}
          data-autofocus
        />
      )}
      reason="How you know that it is theirs. The record keeps it. 1 to 2,000 bytes."
      run={({ reason }) =>
        answer(
          api.POST('/api/v1/admin/transfers/match', {
            body: { ...place(transfer), account_id: account.trim(), reason },
          }),
        )
      }
      done={() => done('The transfer is credited.')}
    >
      The account is credited at the value at which the transfer came in. It can spend the credit at once. The tokens
      stay with the platform.
    </Act>
  );
}

function Return({ transfer }: { transfer: Transfer }) {
  const done = useDone();
  const facts = useFacts(transfer);
  const [hash, setHash] = useState('');
  return (
    <Act
      label="Note return"
      title="Note that this transfer was sent back?"
      permission="pay"
      destructive
      facts={facts}
      params={['return_transaction_hash']}
      fields={(form) => (
        <TextInput
          label="Transaction that sent it back"
          description="0x and 64 digits. Send the tokens from the treasury first; this page sends nothing."
          value={hash}
          onChange={(event) => setHash(event.currentTarget.value)}
          error={form.of('return_transaction_hash')}
          data-autofocus
        />
      )}
      reason="Why it went back. The record keeps it. 1 to 2,000 bytes."
      run={({ reason }) =>
        answer(
          api.POST('/api/v1/admin/transfers/return', {
            body: { ...place(transfer), return_transaction_hash: hash.trim(), reason },
          }),
        )
      }
      done={() => done('The return is noted.')}
    >
      The books record that the tokens have left the platform. Nothing is sent by this act. It cannot be taken back.
    </Act>
  );
}

function place(transfer: Transfer): { chain_id: string; transaction_hash: string; place: string } {
  return { chain_id: transfer.chain_id, transaction_hash: transfer.transaction_hash, place: transfer.place };
}
