// The paid periods of an account's plans, each with what gives it back.

import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { isBelow, less } from '../../format/amounts';
import { isZero } from '../../format/money';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Money, Moment, State } from '../../ui/text';
import type { Account } from './account';
import { Act } from './act';
import { needs } from './allowed';
import { useDone } from './lists';

type Invoice = Schemas['PlanInvoice'];

const columns: Column<Invoice>[] = [
  { name: 'Paid', cell: (invoice) => <Moment at={invoice.paid_at} /> },
  { name: 'Plan', cell: (invoice) => invoice.plan },
  {
    name: 'Period',
    cell: (invoice) => (
      <>
        <Moment at={invoice.period_start} /> to <Moment at={invoice.period_end} />
      </>
    ),
  },
  { name: 'Pool of', cell: (invoice) => invoice.month },
  { name: 'Amount', numeric: true, cell: (invoice) => <Money usd={invoice.amount_usd_str} /> },
  { name: 'Given back', numeric: true, cell: (invoice) => <Money usd={invoice.returned_usd_str} /> },
  { name: 'State', cell: (invoice) => <Standing of={invoice} /> },
  { name: 'Invoice', cell: (invoice) => <Id value={invoice.invoice_id} what="invoice id" /> },
  { name: 'Act', cell: (invoice) => (isPaid(invoice) ? <Refund of={invoice} /> : '–') },
];

const causes: Record<string, string> = {
  operator: 'by an operator',
  late: 'because it came too late',
  surplus: 'because the consumer had nothing of it',
};

function Standing({ of: invoice }: { of: Invoice }) {
  const why = causes[invoice.refund_cause] ?? invoice.refund_cause;
  if (invoice.refund_open) return <State tone="busy">{`refund asked, ${why}`}</State>;
  if (!isZero(invoice.returned_usd_str)) return <State tone="neutral">{`given back ${why}`.trim()}</State>;
  if (invoice.refund_cause === '') return <State tone="good">paid</State>;
  // Nobody is to be asked any more, and nothing has come back.
  return <State tone="bad">{`refund ${why} refused by the card processor`}</State>;
}

/** What of an invoice has not gone back; null where an amount is none. */
function left(invoice: Invoice): string | null {
  return less(invoice.amount_usd_str, invoice.returned_usd_str);
}

/** Reports whether anything of an invoice can be given back, and nobody has asked for it. */
function isPaid(invoice: Invoice): boolean {
  return invoice.refund_cause === '' && isBelow('0', left(invoice) ?? '0');
}

export function PlanInvoices({ account }: { account: Account }) {
  const id = account.account_id;
  const query = useQuery({
    queryKey: ['admin', 'plan-invoices', id],
    queryFn: () =>
      answer(api.GET('/api/v1/admin/accounts/{account_id}/plan-invoices', { params: { path: { account_id: id } } })),
  });
  return (
    <Section title="Invoices of plans" json={query.data?.list} note="The newest 100.">
      <Loaded query={query}>
        {(data) => (
          <DataTable
            caption="Invoices of plans, the newest first"
            columns={columns}
            rows={data.list}
            id={(invoice) => invoice.invoice_id}
            empty="The account has paid for no plan."
          />
        )}
      </Loaded>
    </Section>
  );
}

function Refund({ of: invoice }: { of: Invoice }) {
  const done = useDone();
  return (
    <Act
      label="Refund"
      title="Refund this plan’s invoice?"
      permission={needs['POST /api/v1/admin/plan-invoices/{invoice_id}/refund']}
      destructive
      facts={[
        ['To whom', 'the card that paid the invoice'],
        ['Amount', <Money key="amount" usd={left(invoice)} />],
        ['Ends the subscription', invoice.ends_subscription ? 'yes, at once' : 'no'],
        ['Second person', 'none is needed'],
      ]}
      reason="Why, in at most 200 bytes, for the audit."
      run={({ reason }) =>
        answer(
          api.POST('/api/v1/admin/plan-invoices/{invoice_id}/refund', {
            params: { path: { invoice_id: invoice.invoice_id } },
            body: { memo: reason },
          }),
        )
      }
      done={() => done('The refund is asked for.')}
    >
      What has not gone back of the price goes back to the card, and lowers the pool of its own month unless that is
      closed. The subscription whose last period it is ends at once, and the account is paid from credit from then on.
    </Act>
  );
}
