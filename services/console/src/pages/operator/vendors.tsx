// Vendors of gateway models: what each is owed, invoices that wait for a second operator, and their servers.

import { useInfiniteQuery } from '@tanstack/react-query';

import { answer, api } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Money, Moment, State, type Tone } from '../../ui/text';
import { RoleNote } from './act';
import { operatorName } from './history';
import { useVendorBalances, type Vendor, type VendorBalance, type VendorPayment } from './vendor-data';
import { VendorDetail } from './vendor-detail';
import { CreateVendor } from './vendor-form';
import { ConfirmPayment, PayInvoice } from './vendor-pay';

export default function Vendors() {
  const [{ opened }, setFilters] = useFilters({ opened: '' });
  const setOpened = (id: string) => setFilters({ opened: id });
  const query = useInfiniteQuery({
    queryKey: ['admin', 'vendors', 'list'],
    queryFn: ({ pageParam }) =>
      answer(api.GET('/api/v1/admin/vendors', { params: { query: { page: pageParam, page_size: 100 } } })),
    initialPageParam: 1,
    getNextPageParam: (last) => (last.page * last.page_size < last.total ? last.page + 1 : undefined),
  });
  const balances = useVendorBalances();
  const vendors = query.data?.pages.flatMap((page) => page.list) ?? [];
  const open = vendors.find((vendor) => vendor.provider_id === opened);
  return (
    <Page
      title="Vendors"
      lead="Vendors serve gateway models by contract and send an invoice a month. What is owed is the cost of all
        that they served, less what was paid."
      actions={<CreateVendor />}
    >
      <WaitingPayments vendors={vendors} balances={balances.data ?? []} loaded={balances.isSuccess} />
      <Section title="All vendors" json={{ vendors, balances: balances.data }}>
        <Loaded query={query}>
          {() => (
            <VendorTable
              vendors={vendors}
              balances={balances.data ?? []}
              onOpen={setOpened}
              more={query.hasNextPage ? () => void query.fetchNextPage() : undefined}
              loadingMore={query.isFetchingNextPage}
            />
          )}
        </Loaded>
      </Section>
      <VendorDetail vendor={open} balance={balanceOf(balances.data ?? [], opened)} onClose={() => setOpened('')} />
    </Page>
  );
}

function balanceOf(balances: VendorBalance[], vendor: string): VendorBalance | undefined {
  return balances.find((balance) => balance.vendor_id === vendor);
}

interface WaitingProps {
  vendors: Vendor[];
  balances: VendorBalance[];
  loaded: boolean;
}

function WaitingPayments({ vendors, balances, loaded }: WaitingProps) {
  const name = (id: string) => vendors.find((vendor) => vendor.provider_id === id)?.name ?? id;
  const rows = balances.flatMap((balance) => balance.waiting.map((payment) => ({ payment, balance })));
  const columns: Column<{ payment: VendorPayment; balance: VendorBalance }>[] = [
    { name: 'Vendor', cell: ({ payment }) => name(payment.vendor_id) },
    { name: 'Invoice', cell: ({ payment }) => payment.invoice },
    { name: 'Bank pays', numeric: true, cell: ({ payment }) => <Money usd={payment.amount_usd_str} /> },
    { name: 'Counted', numeric: true, cell: ({ payment }) => <Money usd={payment.counted_usd_str} /> },
    { name: 'Correction', numeric: true, cell: ({ payment }) => <Money usd={payment.correction_usd_str} /> },
    { name: 'Note', cell: ({ payment }) => <span className="breakable">{payment.note}</span> },
    { name: 'Asked by', cell: ({ payment }) => operatorName(payment.asked_by) },
    { name: 'Asked', cell: ({ payment }) => <Moment at={payment.asked_at} withAge /> },
    {
      name: 'Act',
      cell: ({ payment, balance }) => (
        <ConfirmPayment payment={payment} vendor={name(payment.vendor_id)} owed={balance.owed_usd_str} />
      ),
    },
  ];
  if (!loaded || rows.length === 0) return null;
  return (
    <Section
      title="Wait for a second operator"
      json={rows.map(({ payment }) => payment)}
      note="Compare the figures with the invoice itself. If they are wrong, pay the invoice with the right figures: these then take the
        place of what waits."
    >
      <RoleNote permission="approve" />
      <DataTable
        caption="Payments that wait for a second operator"
        columns={columns}
        rows={rows}
        id={({ payment }) => `${payment.vendor_id} ${payment.invoice}`}
        empty="No payment waits."
      />
    </Section>
  );
}

interface VendorTableProps {
  vendors: Vendor[];
  balances: VendorBalance[];
  onOpen: (id: string) => void;
  more: (() => void) | undefined;
  loadingMore: boolean;
}

function VendorTable({ vendors, balances, onOpen, more, loadingMore }: VendorTableProps) {
  const of = (vendor: Vendor) => balanceOf(balances, vendor.provider_id);
  const columns: Column<Vendor>[] = [
    { name: 'Vendor', cell: (vendor) => vendor.name },
    {
      name: 'State',
      cell: (vendor) => <State tone={vendor.state === 'active' ? 'good' : 'warning'}>{vendor.state}</State>,
    },
    { name: 'Server', cell: (vendor) => <State tone={serverTone(vendor)}>{vendor.endpoint?.state ?? 'none'}</State> },
    { name: 'Models', numeric: true, cell: (vendor) => vendor.endpoint?.models.length ?? 0 },
    { name: 'Owed now', numeric: true, cell: (vendor) => <Money usd={of(vendor)?.owed_usd_str ?? '0'} /> },
    {
      name: 'Counted last month',
      numeric: true,
      cell: (vendor) => <Money usd={of(vendor)?.counted_last_month_usd_str ?? '0'} />,
    },
    { name: 'Paid in all', numeric: true, cell: (vendor) => <Money usd={of(vendor)?.paid_usd_str ?? '0'} /> },
    { name: 'Last paid', cell: (vendor) => <Moment at={of(vendor)?.last_payment?.paid_at} /> },
    { name: 'Act', cell: (vendor) => <PayInvoice vendor={vendor} balance={of(vendor)} /> },
  ];
  return (
    <DataTable
      caption="Vendors, the oldest first"
      columns={columns}
      rows={vendors}
      id={(vendor) => vendor.provider_id}
      onOpen={(vendor) => onOpen(vendor.provider_id)}
      empty="There is no vendor yet. Create one with its server, key and gateway models."
      more={more}
      loadingMore={loadingMore}
    />
  );
}

export function serverTone(vendor: Vendor): Tone {
  if (vendor.endpoint === null) return 'neutral';
  if (vendor.endpoint.disabled_at !== null) return 'warning';
  return vendor.endpoint.state === 'healthy' ? 'good' : vendor.endpoint.state === 'unhealthy' ? 'bad' : 'busy';
}
