// The chain on which a provider is paid, and the refund of its collateral.

import { Alert, Group, Select, Stack, Text } from '@mantine/core';
import { useState } from 'react';

import { answer, api } from '../../api/client';
import { useNow } from '../../app/live';
import { isZero } from '../../format/money';
import { duration } from '../../format/quantity';
import { Confirm } from '../../ui/confirm';
import { Form, useForm } from '../../ui/form';
import { Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment, State, type Tone } from '../../ui/text';
import { Transaction, useChainName } from './chains';
import { useChanged, useOnce, type Collateral, type Refund } from './queries';

export function ChooseChain({ of: collateral }: { of: Collateral }) {
  const name = useChainName();
  const changed = useChanged();
  const confirmed = collateral.chains.filter((chain) => chain.confirmed);
  const [chosen, setChosen] = useState(String(collateral.settlement_chain_id));
  const form = useForm(
    () => answer(api.PUT('/api/v1/provider/collateral', { body: { settlement_chain_id: Number(chosen) } })),
    () => void changed(),
  );
  if (confirmed.length < 2) return null;
  return (
    <Section
      title="Where you are paid"
      note={
        <>
          One of the chains on which your collateral is confirmed. It counts for payouts from then on, and for the next
          daily batch.
        </>
      }
    >
      <Form form={form} label="Pay me there" params={['settlement_chain_id']}>
        <Select
          label="Settlement chain"
          maw={360}
          value={chosen}
          onChange={(value) => setChosen(value ?? '')}
          data={confirmed.map((chain) => ({ value: String(chain.chain_id), label: name(chain.chain_id) }))}
          allowDeselect={false}
          error={form.of('settlement_chain_id')}
        />
      </Form>
    </Section>
  );
}

/** Whether there is anything that could go back. */
function holds(collateral: Collateral): boolean {
  return (
    collateral.chains.some((chain) => !isZero(chain.free) || !isZero(chain.escrow)) ||
    !isZero(collateral.card.free_usd_str) ||
    !isZero(collateral.card.escrow_usd_str)
  );
}

export function Refunds({ of: collateral }: { of: Collateral }) {
  const past = collateral.refunds.filter((refund) => refund.refund_id !== collateral.refund?.refund_id);
  return (
    <Section
      title="Get it back"
      note={
        <>
          A refund returns all collateral to those who deposited it, 7 days after you ask. You are suspended meanwhile:
          no connection, no requests, no earnings. It waits as long as a payout, a penalty or an appeal is open.
        </>
      }
    >
      <Stack>
        {collateral.refund === null ? <Ask can={holds(collateral)} /> : <Open refund={collateral.refund} />}
        {past.length > 0 && (
          <DataTable
            caption="Earlier refunds"
            columns={pastColumns}
            rows={past}
            id={(refund) => refund.refund_id}
            empty=""
          />
        )}
      </Stack>
    </Section>
  );
}

function Ask({ can }: { can: boolean }) {
  const changed = useChanged();
  const ask = useOnce((key) =>
    answer(api.POST('/api/v1/provider/collateral/refund', { params: { header: { 'Idempotency-Key': key } } })),
  );
  if (!can) return <Text size="sm">There is nothing to refund.</Text>;
  return (
    <Group>
      <Confirm
        label="Ask for all of it back"
        title="Ask for all your collateral back?"
        destructive
        size="sm"
        act={async () => {
          await ask();
          await changed();
        }}
      >
        You are suspended at once: your agents are disconnected and earn nothing. All collateral is returned 7 days from
        now, to the depositors and the card. You can cancel until it is being paid. To earn again you need collateral
        and a new benchmark. It is refused while a payout, a penalty or an appeal is open.
      </Confirm>
    </Group>
  );
}

const tones: Record<Refund['state'], Tone> = { asked: 'busy', paying: 'busy', paid: 'good', cancelled: 'neutral' };

function Open({ refund }: { refund: Refund }) {
  const now = useNow(15);
  const changed = useChanged();
  const left = refund.due_at === null ? 0 : Date.parse(refund.due_at) - now;
  return (
    <Alert color="yellow" variant="light" title="A refund is open">
      <Stack gap="sm">
        <Facts
          facts={[
            ['State', <State tone={tones[refund.state]}>{refund.state}</State>],
            ['Asked', <Moment at={refund.asked_at} withAge />],
            ['Due', <Moment at={refund.due_at} />],
            [
              'Left',
              <span role="timer">
                {left > 0 ? duration(left / 1000) : 'It is due, and paid as soon as nothing else is open'}
              </span>,
            ],
            ['Refund id', <Id value={refund.refund_id} what="refund id" />],
          ]}
        />
        <Parts of={refund} />
        {refund.state === 'asked' && (
          <Group>
            <Confirm
              label="Cancel the refund"
              title="Cancel the refund?"
              act={async () => {
                await answer(api.DELETE('/api/v1/provider/collateral/refund'));
                await changed();
              }}
            >
              Your collateral stays, and the suspension ends. You are pending then: a new benchmark makes you active
              again.
            </Confirm>
          </Group>
        )}
      </Stack>
    </Alert>
  );
}

type Part = Refund['parts'][number];

function Parts({ of: refund }: { of: Refund }) {
  const name = useChainName();
  const columns: Column<Part>[] = [
    { name: 'From', cell: (part) => name(part.chain_id) },
    {
      name: 'To',
      cell: (part) =>
        part.chain_id === 0 ? (
          <Id value={part.checkout_id} what="checkout id" />
        ) : (
          <Id value={part.depositor} what="depositor" />
        ),
    },
    { name: 'Amount', cell: paid, numeric: true },
    { name: 'State', cell: (part) => <State>{part.state}</State> },
    { name: 'Paid by', cell: (part) => (part.paid_by === '' ? 'not paid yet' : part.paid_by) },
    { name: 'Transaction', cell: (part) => <Transaction hash={part.tx_hash} chain={part.chain_id} /> },
  ];
  return (
    <DataTable
      caption="Parts of the refund"
      columns={columns}
      rows={refund.parts}
      id={(part) => `${part.chain_id} ${part.depositor} ${part.checkout_id}`}
      empty="Its parts are being fixed."
    />
  );
}

function paid(part: Part): string {
  if (part.chain_id !== 0) return part.amount === '' ? '–' : part.amount;
  const cents = String(part.amount_cents).padStart(3, '0');
  return `$${cents.slice(0, -2)}.${cents.slice(-2)}`;
}

const pastColumns: Column<Refund>[] = [
  { name: 'Asked', cell: (refund) => <Moment at={refund.asked_at} /> },
  { name: 'Ended', cell: (refund) => <Moment at={refund.ended_at} /> },
  { name: 'State', cell: (refund) => <State tone={tones[refund.state]}>{refund.state}</State> },
  { name: 'Parts', cell: (refund) => refund.parts.length, numeric: true },
  { name: 'Id', wideOnly: true, cell: (refund) => <Id value={refund.refund_id} what="refund id" /> },
];
