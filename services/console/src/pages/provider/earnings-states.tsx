// Where money stands on its way from a served request to the wallet, and what moves it on.

import type { ReactNode } from 'react';

import { isZero } from '../../format/money';
import { Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Money, State, type Tone } from '../../ui/text';
import type { Earnings } from './queries';

interface Place {
  name: string;
  usd: string;
  tone: Tone;
  what: string;
  next: ReactNode;
}

const columns: Column<Place>[] = [
  { name: 'Where', cell: (place) => <State tone={place.tone}>{place.name}</State> },
  { name: 'Amount', cell: (place) => <Money usd={place.usd} />, numeric: true },
  { name: 'What it is', cell: (place) => place.what },
  { name: 'When it moves on', cell: (place) => place.next },
];

export function Places({ earnings }: { earnings: Earnings }) {
  return (
    <Section
      title="Where your earnings stand"
      json={earnings}
      note={
        <>
          Money moves from above to below: a request settles, a daily batch makes it payable, and a payout or a
          conversion takes it.
        </>
      }
    >
      <DataTable
        caption="Where your earnings stand"
        columns={columns}
        rows={places(earnings)}
        id={(place) => place.name}
        empty=""
      />
    </Section>
  );
}

function places(e: Earnings): Place[] {
  const batched = e.batched_through === '' ? 'No day is batched yet.' : `The last batched day is ${e.batched_through}.`;
  const list: Place[] = [
    {
      name: 'settled',
      usd: e.settled_usd_str,
      tone: 'busy',
      what: 'Earned by requests that were paid with credit.',
      next: e.blocked
        ? 'It waits: your lines are being looked at.'
        : `Its day is batched after 00:15 UTC of the next day. ${batched}`,
    },
    {
      name: 'held',
      usd: e.held_usd_str,
      tone: 'warning',
      what: 'Set aside for a person to look at, for example where counts of tokens differ.',
      next: 'An operator releases it, and it settles; or it is taken back.',
    },
    {
      name: 'settlement pending',
      usd: e.settlement_pending_usd_str,
      tone: 'busy',
      what: 'Earned by requests of plans. The month’s paid invoices bound what all providers get together.',
      next: 'The month closes on the third day of the next one. See the months below.',
    },
    {
      name: 'payable',
      usd: e.payable_usd_str,
      tone: 'good',
      what: 'Yours to take.',
      next: 'When you ask: as a payout, or as credit of your account.',
    },
    {
      name: 'in flight',
      usd: e.in_flight_usd_str,
      tone: 'busy',
      what: 'On its way in a payout that is not confirmed.',
      next: 'A final block confirms it. A payout that fails gives it back.',
    },
    { name: 'paid', usd: e.paid_usd_str, tone: 'neutral', what: 'Paid out so far, before fees.', next: 'It is final.' },
    {
      name: 'converted',
      usd: e.converted_usd_str,
      tone: 'neutral',
      what: 'Turned into credit so far.',
      next: 'It is final.',
    },
  ];
  if (!isZero(e.owed_usd_str)) {
    list.push({
      name: 'owed',
      usd: e.owed_usd_str,
      tone: 'bad',
      what: 'What you owe, for example because earnings were taken back after they were paid.',
      next: 'It is taken from the next earnings first.',
    });
  }
  return list;
}

type Month = Earnings['months'][number];

const monthColumns: Column<Month>[] = [
  { name: 'Month', cell: (month) => month.month },
  {
    name: 'State',
    cell: (month) =>
      month.state === 'paid' ? <State tone="good">paid</State> : <State tone="busy">settlement pending</State>,
  },
  { name: 'Earned', cell: (month) => <Money usd={month.earned_usd_str} />, numeric: true },
  { name: 'Of it held', cell: (month) => <Money usd={month.held_usd_str} />, numeric: true },
  { name: 'Paid', cell: (month) => <Money usd={month.paid_usd_str} />, numeric: true },
  { name: 'Closes', cell: (month) => (month.state === 'paid' ? 'closed' : closes(month.month)) },
];

export function Months({ months }: { months: Month[] }) {
  return (
    <Section
      title="Months of plans"
      json={months}
      note={
        <>
          What requests of plans earned. Where all providers earned more than the month’s pool, each is paid the same
          share of what it earned.
        </>
      }
    >
      <DataTable
        caption="Months of plans, the newest first"
        columns={monthColumns}
        rows={months}
        id={(month) => month.month}
        empty="No request of a plan was served yet."
      />
    </Section>
  );
}

/** The day on which a month of plans is closed: the third of the next one. */
function closes(month: string): string {
  const match = /^(\d{4})-(\d{2})$/.exec(month);
  if (match === null) return '–';
  const next = new Date(Date.UTC(Number(match[1]), Number(match[2]), 3));
  return next.toISOString().slice(0, 10);
}
