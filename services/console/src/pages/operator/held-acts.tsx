// What an operator decides about held earnings.

import { Stack } from '@mantine/core';
import type { ReactNode } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { sum } from '../../format/amounts';
import { Money } from '../../ui/text';
import { Act } from './act';
import { ProviderLink } from './links';
import { useDone } from './lists';

type Held = Schemas['HeldEarning'];

interface Decision {
  held: Held[];
  blocked: string;
  done: () => void;
}

export function Release({ held, blocked, done }: Decision) {
  const finish = useFinish('The earnings are released.', done);
  return (
    <Act
      label="Release"
      title={`Release the earnings of ${requests(held)}?`}
      permission="pay"
      blocked={blocked}
      facts={facts(held)}
      reason="Why they may be paid. The record keeps it. 1 to 200 characters."
      run={({ reason }) =>
        answer(api.POST('/api/v1/admin/held-earnings/release', { body: { request_ids: ids(held), reason } }))
      }
      done={finish}
    >
      All of them are released or none. Earnings by credit join the next daily batch. Earnings by a plan share in the
      pool of their month; of a closed month they are paid what was kept for them. A release cannot be taken back.
    </Act>
  );
}

export function Forfeit({ held, blocked, done }: Decision) {
  const finish = useFinish('The earnings are forfeited.', done);
  const byCredit = held.filter((one) => one.plan_month === '');
  const refusal =
    byCredit.length > 0
      ? `Paid by credit: ${requests(byCredit)} of the choice. Refund these instead, which ends what is held.`
      : '';
  return (
    <Act
      label="Forfeit"
      title={`Forfeit the earnings of ${requests(held)}?`}
      permission="pay"
      destructive
      blocked={blocked === '' ? refusal : blocked}
      facts={facts(held)}
      reason="Why they are taken. The record keeps it. 1 to 200 characters."
      run={({ reason }) =>
        answer(api.POST('/api/v1/admin/held-earnings/forfeit', { body: { request_ids: ids(held), reason } }))
      }
      done={finish}
    >
      The providers lose these earnings, all of them or none, and the ledger posts that at once. While the month is
      open, the shares of the other providers rise. Of a closed month, what was kept for them becomes revenue. A forfeit
      cannot be taken back.
    </Act>
  );
}

function useFinish(message: string, done: () => void) {
  const say = useDone();
  return () => {
    say(message);
    done();
  };
}

function ids(held: Held[]): string[] {
  return held.map((one) => one.request_id);
}

function requests(held: Held[]): string {
  return held.length === 1 ? '1 request' : `${held.length} requests`;
}

function facts(held: Held[]): [string, ReactNode][] {
  const providers = [...new Set(held.map((one) => one.provider_id))];
  return [
    [
      providers.length === 1 ? 'Provider' : `${providers.length} providers`,
      <Stack key="providers" gap={2} align="flex-start">
        {providers.slice(0, 10).map((id) => (
          <ProviderLink key={id} id={id} />
        ))}
        {providers.length > 10 && <span>and {providers.length - 10} more</span>}
      </Stack>,
    ],
    ['Amount', <Money key="amount" usd={sum(held.map((one) => one.payout_usd_str))} />],
    ['Second person', 'None is needed'],
  ];
}
