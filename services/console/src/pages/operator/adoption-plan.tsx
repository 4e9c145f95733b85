// The two tables of an adoption's plan. Where the witnesses do not suffice, an operator says what a transaction is.

import { Checkbox, NativeSelect } from '@mantine/core';

import type { Schemas } from '../../api/client';
import { DataTable, type Column } from '../../ui/table';
import { Id, Money, State, type Tone } from '../../ui/text';
import { ProviderLink, shortId } from './links';

type Plan = Schemas['Adoption'];

/** What an operator says about single transactions and payouts. */
export interface Words {
  accept: ReadonlySet<string>;
  matches: ReadonlyMap<string, string>;
  giveBack: ReadonlySet<string>;
}

export const noWords: Words = { accept: new Set(), matches: new Map(), giveBack: new Set() };

/** How many transactions the words are about. */
export function said(words: Words): number {
  return words.accept.size + words.matches.size;
}

interface TableProps {
  plan: Plan;
  words: Words;
  onChange: (words: Words) => void;
}

const actions: Record<string, { text: string; tone: Tone }> = {
  record: { text: 'is recorded', tone: 'good' },
  sign_again: { text: 'is signed again', tone: 'busy' },
  cancel: { text: 'is cancelled on the chain', tone: 'busy' },
  follow: { text: 'ends as its transaction', tone: 'good' },
  give_back: { text: 'is given back', tone: 'busy' },
  wait: { text: 'waits', tone: 'neutral' },
  ask: { text: 'needs your word', tone: 'warning' },
};

function Action({ action }: { action: string }) {
  const known = actions[action];
  return <State tone={known?.tone ?? 'neutral'}>{known?.text ?? action}</State>;
}

export function AdoptedCalls({ plan, words, onChange }: TableProps) {
  const columns: Column<Schemas['AdoptedCall']>[] = [
    { name: 'Key', cell: (call) => call.key },
    { name: 'Sender', cell: (call) => <Id value={call.sender} what="address" /> },
    { name: 'Nonce', numeric: true, cell: (call) => call.nonce },
    { name: 'Transaction', cell: (call) => <Id value={call.transaction_hash} what="transaction" /> },
    { name: 'What', cell: (call) => call.what },
    { name: 'What it does', cell: (call) => <span className="breakable">{call.detail}</span> },
    { name: 'Then it', cell: (call) => <Action action={call.action} /> },
    { name: 'Your word', cell: (call) => <CallWord call={call} plan={plan} words={words} onChange={onChange} /> },
  ];
  return (
    <DataTable
      caption="Nonces that the database lacks"
      columns={columns}
      rows={plan.calls}
      id={(call) => `${call.sender} ${call.nonce}`}
      empty="No transaction is missing."
    />
  );
}

function CallWord({ call, plan, words, onChange }: TableProps & { call: Schemas['AdoptedCall'] }) {
  const hash = call.transaction_hash;
  if (call.action !== 'ask' || hash === '') return <>–</>;
  const value = words.matches.get(hash) ?? (words.accept.has(hash) ? 'accept' : '');
  function say(word: string) {
    const accept = new Set(words.accept);
    const matches = new Map(words.matches);
    accept.delete(hash);
    matches.delete(hash);
    if (word === 'accept') accept.add(hash);
    else if (word !== '') matches.set(hash, word);
    onChange({ ...words, accept, matches });
  }
  return (
    <NativeSelect
      size="xs"
      aria-label={`Your word about transaction ${hash}`}
      value={value}
      onChange={(event) => say(event.currentTarget.value)}
      data={[
        { value: '', label: 'None' },
        { value: 'accept', label: 'Record it, although nothing explains it' },
        ...plan.payouts.map((payout) => ({
          value: payout.payout_id,
          label: `It pays payout ${shortId(payout.payout_id)}`,
        })),
      ]}
    />
  );
}

export function AdoptedPayouts({ plan, words, onChange }: TableProps) {
  function toggle(id: string) {
    const giveBack = new Set(words.giveBack);
    if (!giveBack.delete(id)) giveBack.add(id);
    onChange({ ...words, giveBack });
  }
  const columns: Column<Schemas['AdoptedPayout']>[] = [
    { name: 'Payout', cell: (payout) => <Id value={payout.payout_id} what="payout id" /> },
    { name: 'Provider', cell: (payout) => <ProviderLink id={payout.provider_id} /> },
    { name: 'Gross', numeric: true, cell: (payout) => <Money usd={payout.gross_usd_str} /> },
    { name: 'In the books', cell: (payout) => payout.books.replaceAll('_', ' ') },
    { name: 'In the database', cell: (payout) => (payout.state === '' ? 'missing' : payout.state) },
    { name: 'Why', cell: (payout) => <span className="breakable">{payout.detail}</span> },
    { name: 'Then it', cell: (payout) => <Action action={payout.action} /> },
    {
      name: 'Your word',
      cell: (payout) =>
        payout.action === 'ask' ? (
          <Checkbox
            checked={words.giveBack.has(payout.payout_id)}
            onChange={() => toggle(payout.payout_id)}
            label="It was not sent: give its money back"
          />
        ) : (
          '–'
        ),
    },
  ];
  return (
    <DataTable
      caption="Payouts that the database lacks"
      columns={columns}
      rows={plan.payouts}
      id={(payout) => payout.payout_id}
      empty="No payout is missing."
    />
  );
}
