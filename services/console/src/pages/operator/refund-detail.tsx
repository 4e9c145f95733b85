// One refund with its parts, and the refunds that wait for the bank.

import { TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api } from '../../api/client';
import { units } from '../../format/money';
import { Loaded, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { Act, RoleNote } from './act';
import { useChainName } from './chain-names';
import { Detail } from './detail';
import { History } from './history';
import { ProviderLink, shortId } from './links';
import { useDone } from './lists';
import { cents, partStates, refundTone, stateWord, waitsForBank, type Refund, type RefundPart } from './refund-words';

/** The refunds of a state in which parts may wait for the bank. */
function usePaying(state: 'REFUND_STATE_PAYING' | 'REFUND_STATE_REPAYING') {
  return useQuery({
    queryKey: ['admin', 'collateral-refunds', state],
    queryFn: () =>
      answer(api.GET('/api/v1/admin/collateral/refunds', { params: { query: { state, page: 1, page_size: 200 } } })),
    refetchInterval: 60_000,
  });
}

export function BankRefunds({ onOpen }: { onOpen: (id: string) => void }) {
  const paying = usePaying('REFUND_STATE_PAYING');
  const repaying = usePaying('REFUND_STATE_REPAYING');
  const columns: Column<Refund>[] = [
    { name: 'Refund', cell: (refund) => shortId(refund.refund_id) },
    { name: 'Provider', cell: (refund) => <ProviderLink id={refund.provider_id} /> },
    { name: 'To transfer', numeric: true, cell: (refund) => cents(waitsForBank(refund)) },
    { name: 'Due since', cell: (refund) => <Moment at={refund.due_at} withAge /> },
    { name: 'Act', cell: (refund) => <ConfirmBankRefund refund={refund} /> },
  ];
  return (
    <Section
      title="Wait for the bank"
      note="A card did not take these refunds, or is too old for one. Confirm here first, then transfer: once confirmed, the books have
        paid. If the confirmation fails because the card's owner has the money back, transfer nothing."
    >
      <RoleNote permission="pay" />
      <Loaded query={paying}>
        {(first) => (
          <Loaded query={repaying}>
            {(second) => (
              <DataTable
                caption="Refunds that wait for the bank"
                columns={columns}
                rows={[...first.list, ...second.list].filter((refund) => waitsForBank(refund).length > 0)}
                id={(refund) => refund.refund_id}
                onOpen={(refund) => onOpen(refund.refund_id)}
                empty="No refund waits for a transfer by the bank."
              />
            )}
          </Loaded>
        )}
      </Loaded>
    </Section>
  );
}

export function ConfirmBankRefund({ refund }: { refund: Refund }) {
  const done = useDone();
  const [reference, setReference] = useState('');
  const parts = waitsForBank(refund);
  return (
    <Act
      label="Confirm transfer"
      title="Confirm the transfer by the bank?"
      permission="pay"
      blocked={parts.length === 0 ? 'Nothing of it waits for the bank.' : ''}
      facts={[
        ['Provider', <ProviderLink key="provider" id={refund.provider_id} />],
        ['Amount to transfer', cents(parts)],
        ['Card payments', String(parts.length)],
        ['Second person', 'None is needed'],
      ]}
      params={['reference']}
      fields={(form) => (
        <TextInput
          label="Reference of the transfer"
          description="As the bank will show it, for the audit log. 1 to 200 characters."
          value={reference}
          onChange={(event) => setReference(event.currentTarget.value)}
          error={form.of('reference')}
          data-autofocus
        />
      )}
      run={() =>
        answer(
          api.POST('/api/v1/admin/collateral/refunds/{refund_id}/paid', {
            params: { path: { refund_id: refund.refund_id } },
            body: { reference: reference.trim() },
          }),
        )
      }
      done={() => done('The books have paid. Now transfer the amount at the bank.')}
    >
      The books record this amount as paid from the bank. Only after that, transfer it to the owner of the card. What
      the card&apos;s owner takes back later is then owed to the platform.
    </Act>
  );
}

export function RefundDetail({ id, listed, onClose }: { id: string; listed: Refund[]; onClose: () => void }) {
  const paying = usePaying('REFUND_STATE_PAYING');
  const repaying = usePaying('REFUND_STATE_REPAYING');
  const all = [...(paying.data?.list ?? []), ...(repaying.data?.list ?? []), ...listed];
  const refund = all.find((one) => one.refund_id === id);
  return (
    <Detail title="Collateral refund" open={refund !== undefined} onClose={onClose}>
      {refund !== undefined && <RefundFacts refund={refund} />}
      {refund !== undefined && <History subject={refund.refund_id} service="settlement" />}
    </Detail>
  );
}

function RefundFacts({ refund }: { refund: Refund }) {
  const name = useChainName();
  const columns: Column<RefundPart>[] = [
    { name: 'By', cell: (part) => (part.chain_id === '0' ? 'card' : name(part.chain_id)) },
    { name: 'State', cell: (part) => partStates[part.state] ?? part.state.replaceAll('_', ' ') },
    { name: 'Amount', numeric: true, cell: (part) => amountOf(part) },
    { name: 'To', cell: (part) => <Payee part={part} /> },
    { name: 'Attempt', numeric: true, cell: (part) => (part.chain_id === '0' ? part.attempt : '–') },
    { name: 'Paid by', cell: (part) => (part.paid_by === '' ? '–' : part.paid_by) },
    { name: 'Transaction', cell: (part) => <Id value={part.transaction_hash} what="transaction" /> },
  ];
  return (
    <>
      <Section
        title="Where it stands"
        json={refund}
        actions={waitsForBank(refund).length > 0 ? <ConfirmBankRefund refund={refund} /> : undefined}
      >
        <Facts
          facts={[
            [
              'State',
              <State key="state" tone={refundTone(refund.state)}>
                {stateWord(refund.state)}
              </State>,
            ],
            ['Refund id', <Id key="id" value={refund.refund_id} what="refund id" full />],
            ['Provider', <ProviderLink key="provider" id={refund.provider_id} />],
            ['By card', cents(refund.parts)],
            ['Asked', <Moment key="asked" at={refund.asked_at} withAge />],
            ['Due', <Moment key="due" at={refund.due_at} withAge />],
            ['Ended', <Moment key="ended" at={refund.ended_at} withAge />],
          ]}
        />
      </Section>
      <Section
        title="Parts"
        note="One part for each depositor on a chain and each payment by card. Amounts on chains are in the token's smallest unit. A card is
          tried three times; the fourth attempt is the bank's."
      >
        <DataTable
          caption="Parts of the refund"
          columns={columns}
          rows={refund.parts}
          id={(part) => `${part.chain_id} ${part.depositor} ${part.checkout_id}`}
          empty="The parts are known once the refund is asked of contracts and cards."
        />
      </Section>
    </>
  );
}

function Payee({ part }: { part: RefundPart }) {
  if (part.chain_id === '0') return <Id value={part.checkout_id} what="checkout id" />;
  return <Id value={part.depositor} what="address" />;
}

function amountOf(part: RefundPart): string {
  if (part.chain_id === '0') return cents([part]);
  return part.amount === '' ? '–' : units(part.amount, 0);
}
