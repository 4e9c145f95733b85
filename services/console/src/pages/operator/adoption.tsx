// What a restored database lost of a chain, and its adoption.

import { Button, Group, Select, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { sum } from '../../format/amounts';
import { useFilters } from '../../ui/filters';
import { Loaded, Section } from '../../ui/page';
import { Money } from '../../ui/text';
import { Act, RoleNote } from './act';
import { AdoptedCalls, AdoptedPayouts, noWords, said, type Words } from './adoption-plan';
import { useChainName, useChains } from './chain-names';
import { useDone } from './lists';

type Plan = Schemas['Adoption'];

export function Adoption() {
  const [filters, setFilters] = useFilters({ adopt: '', since: '' });
  const name = useChainName();
  const query = useQuery({
    queryKey: ['admin', 'adoption', filters.adopt, filters.since],
    queryFn: () =>
      answer(
        api.GET('/api/v1/admin/chains/{chain_id}/adoption', {
          params: { path: { chain_id: filters.adopt }, query: filters.since === '' ? {} : { since: filters.since } },
        }),
      ),
    enabled: filters.adopt !== '',
    refetchOnWindowFocus: false, // each look asks chain, signer and books
  });
  return (
    <Section
      title="After a restored database"
      json={query.data}
      note="A database that was restored from an older copy lacks transactions that chain and signer know, and sending is halted. Look at
        what is missing, then adopt it. What waits is adopted by a later call: do it again until nothing is left."
    >
      <RoleNote permission="run" />
      <Look
        key={`${filters.adopt} ${filters.since}`}
        chain={filters.adopt}
        since={filters.since}
        onLook={(adopt, since) => setFilters({ adopt, since })}
      />
      {filters.adopt !== '' && (
        <Loaded query={query}>
          {({ adoption }) =>
            adoption === null ? null : (
              <Adopt key={query.dataUpdatedAt} plan={adoption} chain={name(filters.adopt)} since={filters.since} />
            )
          }
        </Loaded>
      )}
    </Section>
  );
}

function Look({
  chain,
  since,
  onLook,
}: {
  chain: string;
  since: string;
  onLook: (chain: string, since: string) => void;
}) {
  const chains = useChains();
  const name = useChainName();
  const [chosen, setChosen] = useState(chain);
  const [from, setFrom] = useState(since);
  function submit(event: FormEvent) {
    event.preventDefault();
    onLook(chosen, from.trim());
  }
  return (
    <form onSubmit={submit}>
      <Group align="flex-end" gap="xs" mb="sm">
        <Select
          label="Chain"
          value={chosen === '' ? null : chosen}
          onChange={(value) => setChosen(value ?? '')}
          data={(chains.data?.chains ?? []).map((one) => ({ value: one.chain_id, label: name(one.chain_id) }))}
        />
        <TextInput
          label="Read the books since"
          description="For example 2026-11-20T00:00:00Z; empty takes seven days"
          value={from}
          onChange={(event) => setFrom(event.currentTarget.value)}
        />
        <Button type="submit" variant="default" disabled={chosen === ''}>
          Look
        </Button>
      </Group>
    </form>
  );
}

/** The plan of an adoption with the operator's words about single transactions. */
function Adopt({ plan, chain, since }: { plan: Plan; chain: string; since: string }) {
  const [words, setWords] = useState<Words>(noWords);
  const empty = plan.calls.length === 0 && plan.payouts.length === 0 && !plan.more;
  if (empty)
    return (
      <Text role="status">The database has everything that {chain} and the books have. There is nothing to adopt.</Text>
    );
  return (
    <Stack>
      <Text role="status">
        {plan.complete
          ? 'All of it can be adopted now.'
          : 'A part of it waits, or needs your word. What can be adopted now is adopted.'}
        {plan.more && ' There are more calls than one adoption takes.'}
      </Text>
      <AdoptedCalls plan={plan} words={words} onChange={setWords} />
      <AdoptedPayouts plan={plan} words={words} onChange={setWords} />
      <Group justify="flex-end">
        <AdoptAct plan={plan} chain={chain} since={since} words={words} />
      </Group>
    </Stack>
  );
}

function AdoptAct({ plan, chain, since, words }: { plan: Plan; chain: string; since: string; words: Words }) {
  const done = useDone();
  const calls = (action: string) => plan.calls.filter((call) => call.action === action).length;
  const back = plan.payouts.filter((payout) => payout.action === 'give_back' || words.giveBack.has(payout.payout_id));
  return (
    <Act
      label="Adopt"
      title={`Adopt what is lost of ${chain}?`}
      permission="run"
      destructive
      size="sm"
      facts={[
        ['Transactions recorded', String(calls('record') + said(words))],
        ['Signed again and sent', String(calls('sign_again'))],
        ['Cancelled on the chain', String(calls('cancel'))],
        [
          'Payouts that end as their transaction did',
          String(plan.payouts.filter((payout) => payout.action === 'follow').length),
        ],
        ['Payouts given back to providers', String(back.length)],
        ['Amount given back', <Money key="back" usd={sum(back.map((payout) => payout.gross_usd_str))} />],
        ['Your words about single transactions', String(said(words) + words.giveBack.size)],
        ['Second person', 'None is needed'],
      ]}
      reason="What happened to the database. The record keeps it. 1 to 500 characters."
      run={({ reason }) =>
        answer(
          api.POST('/api/v1/admin/chains/{chain_id}/adoption', {
            params: { path: { chain_id: plan.chain_id } },
            body: {
              reason,
              ...(since === '' ? {} : { since }),
              accept_unknown: [...words.accept],
              matches: [...words.matches].map(([transaction_hash, payout_id]) => ({ transaction_hash, payout_id })),
              give_back: [...words.giveBack],
            },
          }),
        )
      }
      done={({ adoption }) =>
        done(adoption?.complete === true ? 'All of it is adopted.' : 'A part is adopted. Look again for the rest.')
      }
    >
      What final blocks, the signer and the books prove is taken into the database in one transaction. Halts that came
      of the loss are lifted once nothing is left. Your words about single transactions stand for ever.
    </Act>
  );
}
