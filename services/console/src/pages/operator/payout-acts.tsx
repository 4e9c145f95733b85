// What an operator may do about a payout. Each act says before the click to whom how much goes, and who else is needed.

import { Group, Text } from '@mantine/core';
import type { ReactNode } from 'react';

import { answer, api } from '../../api/client';
import { Id, Money, Moment } from '../../ui/text';
import { Act } from './act';
import { useChainName } from './chain-names';
import { operatorName } from './history';
import { ProviderLink } from './links';
import { useDone } from './lists';
import type { Payout } from './payout-words';
import { useOwnName } from './role';

/** Who approved and when, as text. */
export function Approvals({ payout }: { payout: Payout }) {
  if (payout.approvals_needed === null) return <>not known while settlement is being upgraded</>;
  if (payout.approvals_needed === 0) return <>none is needed</>;
  return (
    <>
      {payout.approvals_given} of {payout.approvals_needed}
      {payout.approvals.map((approval) => (
        <Text key={approval.operator} size="sm" c="var(--muted)">
          {operatorName(approval.operator)}, <Moment at={approval.at} withAge />
        </Text>
      ))}
    </>
  );
}

/** The acts that the state of a payout allows. */
export function PayoutActs({ payout }: { payout: Payout }) {
  switch (payout.state) {
    case 'PAYOUT_STATE_REQUESTED':
      return (
        <Group gap="xs">
          <Approve payout={payout} />
          <Cancel payout={payout} />
        </Group>
      );
    case 'PAYOUT_STATE_APPROVED':
      return <Cancel payout={payout} />;
    case 'PAYOUT_STATE_SIGNING':
    case 'PAYOUT_STATE_SUBMITTED':
      return <CancelOnChain payout={payout} />;
    default:
      return null;
  }
}

function useFacts(payout: Payout): [string, ReactNode][] {
  const name = useChainName();
  return [
    ['Provider', <ProviderLink key="provider" id={payout.provider_id} />],
    ['Taken from its earnings', <Money key="gross" usd={payout.gross_usd_str} />],
    ['Fee', <Money key="fee" usd={payout.fee_usd_str} />],
    ['Sent to it', <Money key="net" usd={payout.net_usd_str} />],
    ['Address', <Id key="address" value={payout.address} what="address" full />],
    ['Chain', name(payout.chain_id)],
  ];
}

function Approve({ payout }: { payout: Payout }) {
  const done = useDone();
  const facts = useFacts(payout);
  const own = useOwnName();
  const approvals = payout.approvals.map((approval) => approval.operator);
  const mine = approvals.includes(own);
  const first = approvals.find((operator) => operator !== own);
  return (
    <Act
      label="Approve"
      title="Approve this payout?"
      permission="approve"
      blocked={
        payout.ending
          ? 'The payout is ending.'
          : mine
            ? 'You have approved it. Another operator must approve it, too.'
            : ''
      }
      facts={[...facts, ['Second person', secondPerson(payout, first)]]}
      reason="What you checked. The history of the payout keeps it. 1 to 500 characters."
      run={({ reason }) =>
        answer(
          api.POST('/api/v1/admin/payouts/{payout_id}/approve', {
            params: { path: { payout_id: payout.payout_id } },
            body: { reason },
          }),
        )
      }
      done={(answered) =>
        done(
          answered.payout?.state === 'PAYOUT_STATE_REQUESTED'
            ? 'Your approval is kept. A second operator must approve, too.'
            : 'The payout is approved.',
        )
      }
    >
      {needsOne(payout) || first !== undefined
        ? 'The payout is signed and sent once screening, balance and chain allow it. What the chain has confirmed cannot be taken back.'
        : 'Your approval is kept. Nothing is sent before two operators have approved.'}{' '}
      An operator may approve from 24 hours after becoming active.
    </Act>
  );
}

/** Whether one approval is enough. A settlement of an earlier release does not say, so two may be needed. */
function needsOne(payout: Payout): boolean {
  return payout.approvals_needed !== null && payout.approvals_needed < 2;
}

/** Who else must approve, given who has. */
function secondPerson(payout: Payout, first: string | undefined): string {
  if (payout.approvals_needed === null) return 'Not known while settlement is being upgraded';
  if (needsOne(payout)) return 'None is needed';
  if (first === undefined) return 'Another operator who signed in must approve it, too';
  return `${operatorName(first)} approved first; yours is the second approval`;
}

function Cancel({ payout }: { payout: Payout }) {
  const done = useDone();
  const facts = useFacts(payout);
  return (
    <Act
      label="Cancel"
      title="Cancel this payout?"
      permission="pay"
      destructive
      blocked={payout.ending ? 'The payout is ending.' : ''}
      facts={[...facts, ['Second person', 'None is needed']]}
      reason="Why. The provider reads it. 1 to 500 characters."
      run={({ reason }) =>
        answer(
          api.POST('/api/v1/admin/payouts/{payout_id}/cancel', {
            params: { path: { payout_id: payout.payout_id } },
            body: { reason },
          }),
        )
      }
      done={() => done('The payout is being cancelled.')}
    >
      Nothing is sent. The whole amount, fee included, is payable to the provider again. It may ask for another payout
      on this chain from an hour after it asked for this one.
    </Act>
  );
}

function CancelOnChain({ payout }: { payout: Payout }) {
  const done = useDone();
  const facts = useFacts(payout);
  return (
    <Act
      label="Cancel on chain"
      title="Cancel this payout on its chain?"
      permission="pay"
      destructive
      facts={[
        ...facts,
        ['Transaction', <Id key="tx" value={payout.tx_hash} what="transaction" />],
        ['Second person', 'None is needed'],
      ]}
      reason="Why. The record of the call keeps it. 1 to 500 characters."
      run={({ reason }) =>
        answer(
          api.POST('/api/v1/admin/payouts/{payout_id}/cancel-on-chain', {
            params: { path: { payout_id: payout.payout_id } },
            body: { reason },
          }),
        )
      }
      done={() => done('The cancel is sent. The chain decides.')}
    >
      A transaction that does nothing is sent with the nonce of the payout. The chain decides which of the two is mined,
      so the payout may still be paid. Once the cancel is final, the whole amount is payable to the provider again. The
      platform pays the gas.
    </Act>
  );
}
