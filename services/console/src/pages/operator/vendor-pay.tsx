// The payment of a vendor's invoice. It says what the bank pays, what the books take from what is owed, and who bears the rest.

import { TextInput } from '@mantine/core';
import { useState, type ReactNode } from 'react';

import { answer, api } from '../../api/client';
import { useNow } from '../../app/live';
import { less, nano } from '../../format/amounts';
import type { FormState } from '../../ui/form';
import { Id, Money } from '../../ui/text';
import { Act } from './act';
import { operatorName } from './history';
import { useDone } from './lists';
import { useOwnName } from './role';
import type { Vendor, VendorBalance, VendorPayment } from './vendor-data';
import { needsSecond, plain } from './vendor-rules';

interface Figures {
  invoice: string;
  amount: string;
  counted: string;
  note: string;
}

const blank: Figures = { invoice: '', amount: '', counted: '', note: '' };

function pay(vendorId: string, figures: Figures) {
  return answer(
    api.POST('/api/v1/admin/vendors/{vendor_id}/payments', {
      params: { path: { vendor_id: vendorId } },
      body: {
        invoice: figures.invoice.trim(),
        amount_usd: figures.amount.trim(),
        counted_usd: figures.counted.trim(),
        note: figures.note.trim(),
      },
    }),
  );
}

export function PayInvoice({ vendor, balance }: { vendor: Vendor; balance: VendorBalance | undefined }) {
  const done = useDone();
  const now = useNow();
  const own = `operator:${useOwnName()}`;
  const [figures, setFigures] = useState(blank);
  const { amount, counted } = figures;
  const asked = balance?.waiting.find((payment) => says(payment, figures) && payment.asked_by !== own);
  const second =
    asked !== undefined
      ? `${operatorName(asked.asked_by)} asked for the same; your call pays it`
      : needsSecond(amount.trim(), counted.trim(), balance?.last_payment, now)
        ? 'Another operator who signed in must say the same. Until then the payment waits'
        : 'None is needed, unless payments of the last 24 hours make the sum large';
  return (
    <Act
      label="Pay an invoice"
      title={`Pay an invoice of ${vendor.name}?`}
      permission="approve"
      blocked={balance === undefined ? 'The vendor has served nothing yet, so nothing is owed.' : ''}
      facts={[
        ['Vendor', <Id key="vendor" value={vendor.provider_id} />],
        ['Owed now', <Money key="owed" usd={balance?.owed_usd_str ?? '0'} />],
        ['Counted last month', <Money key="month" usd={balance?.counted_last_month_usd_str ?? '0'} />],
        ...consequences(amount, counted, balance?.owed_usd_str ?? '0'),
        ['Second person', second],
      ]}
      params={['invoice', 'amount_usd', 'counted_usd', 'note']}
      fields={(form) => <InvoiceFields form={form} figures={figures} onChange={setFigures} />}
      run={() => pay(vendor.provider_id, figures)}
      done={({ payment }) => {
        setFigures(blank);
        done(payment?.state === 'waiting' ? 'The payment waits for a second operator.' : 'The invoice is paid.');
      }}
    >
      Transfer the amount at the bank. Then say it here, under the number of the invoice. An invoice is paid once: the
      same number with the same figures does nothing twice. This page moves no money at the bank.
    </Act>
  );
}

/** Reports whether a payment that waits is the invoice that was typed. */
function says(payment: VendorPayment, figures: Figures): boolean {
  const counted = figures.counted.trim() === '' ? figures.amount : figures.counted;
  return (
    payment.invoice === figures.invoice.trim().toUpperCase() &&
    nano(payment.amount_usd_str) === nano(figures.amount) &&
    nano(payment.counted_usd_str) === nano(counted)
  );
}

function consequences(amount: string, counted: string, owed: string): [string, ReactNode][] {
  const count = counted.trim() === '' ? amount : counted;
  if (nano(amount) === null || nano(count) === null) return [];
  return [
    ['The bank pays', <Money key="amount" usd={amount.trim()} />],
    ['The margin of usage bears', <Money key="correction" usd={less(amount, count)} />],
    ['Owed afterwards', <Money key="after" usd={less(owed, count)} />],
  ];
}

function InvoiceFields({
  form,
  figures,
  onChange,
}: {
  form: FormState;
  figures: Figures;
  onChange: (figures: Figures) => void;
}) {
  const set = (field: keyof Figures) => (event: { currentTarget: { value: string } }) =>
    onChange({ ...figures, [field]: event.currentTarget.value });
  return (
    <>
      <TextInput
        label="Number of the invoice"
        description="As the vendor wrote it. Capitals make no difference."
        value={figures.invoice}
        onChange={set('invoice')}
        error={form.of('invoice')}
        data-autofocus
      />
      <TextInput
        label="What the invoice asks for, in dollars"
        description="In whole cents, for example 1200.50"
        inputMode="decimal"
        value={figures.amount}
        onChange={set('amount')}
        error={form.of('amount_usd')}
      />
      <TextInput
        label="What was counted of the same service, in dollars"
        description="Only where it differs from the invoice. It is taken from what is owed, and the margin of usage bears the difference."
        inputMode="decimal"
        value={figures.counted}
        onChange={set('counted')}
        error={form.of('counted_usd')}
      />
      <TextInput
        label="Note"
        description="What the payment is for, for the books and the audit log. 1 to 200 characters."
        value={figures.note}
        onChange={set('note')}
        error={form.of('note')}
      />
    </>
  );
}

/** The second operator's word about a payment that waits. */
export function ConfirmPayment({ payment, vendor, owed }: { payment: VendorPayment; vendor: string; owed: string }) {
  const done = useDone();
  const own = `operator:${useOwnName()}`;
  const figures: Figures = {
    invoice: payment.invoice,
    amount: plain(payment.amount_usd_str),
    counted: plain(payment.counted_usd_str),
    note: payment.note,
  };
  return (
    <Act
      label="Confirm"
      title={`Confirm the payment of invoice ${payment.invoice}?`}
      permission="approve"
      blocked={payment.asked_by === own ? 'You asked for it. Another operator must confirm it.' : ''}
      facts={[
        ['Vendor', vendor],
        ['Invoice', payment.invoice],
        ...consequences(figures.amount, figures.counted, owed),
        ['Note', payment.note],
        ['Second person', `${operatorName(payment.asked_by)} asked; you confirm`],
      ]}
      run={() => pay(payment.vendor_id, figures)}
      done={() => done('The invoice is paid.')}
    >
      The books record the invoice as paid by the bank, and what the vendor is owed becomes less by what was counted.
      This cannot be taken back. Compare the figures with the invoice first.
    </Act>
  );
}
