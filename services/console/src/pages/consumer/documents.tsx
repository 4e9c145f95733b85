// Invoices, credit notes and receipts of credit.

import { SegmentedControl } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment, Money } from '../../ui/text';
import { DocumentDrawer, seriesOf, type Series } from './document';
import { scope } from './queries';

type Document = Schemas['Document'];

const notes: Record<Series, string> = {
  invoices:
    'A month has its invoice once it is over, in UTC. It lists what was charged in that month and never changes.',
  'credit-notes': 'A credit note gives back what an invoice has charged. It names its invoice.',
  receipts: 'Each credit that was bought or given has a receipt.',
};

const empty: Record<Series, string> = {
  invoices: 'There is no invoice yet. The first one comes after the end of the first month with usage.',
  'credit-notes': 'There is no credit note.',
  receipts: 'There is no receipt yet. The first one comes with the first credit.',
};

export function Documents() {
  const [filters, setFilters] = useFilters({ documents: 'invoices', document: '' });
  const series = seriesOf(filters.documents);
  const documents = useDocuments(series);
  const list = documents.data?.pages.flatMap((page) => page.documents) ?? [];
  const open = list.find((document) => document.number === filters.document) ?? null;
  return (
    <Section
      title="Invoices and receipts"
      json={list}
      note={notes[series]}
      actions={
        <SegmentedControl
          size="xs"
          aria-label="Which documents"
          value={series}
          onChange={(value) => setFilters({ documents: value, document: '' })}
          data={[
            { value: 'invoices', label: 'Invoices' },
            { value: 'credit-notes', label: 'Credit notes' },
            { value: 'receipts', label: 'Receipts' },
          ]}
        />
      }
    >
      <Loaded query={documents}>
        {() => (
          <DataTable
            caption="Documents"
            columns={columns(series)}
            rows={list}
            id={(document) => document.number}
            empty={empty[series]}
            onOpen={(document) => setFilters({ document: document.number })}
            more={documents.hasNextPage ? () => void documents.fetchNextPage() : undefined}
            loadingMore={documents.isFetchingNextPage}
          />
        )}
      </Loaded>
      <DocumentDrawer series={series} document={open} onClose={() => setFilters({ document: '' })} />
    </Section>
  );
}

function useDocuments(series: Series) {
  return useInfiniteQuery({
    queryKey: [scope, 'documents', series],
    initialPageParam: '',
    queryFn: ({ pageParam }) => page(series, pageParam || undefined),
    getNextPageParam: (one) => one.next || undefined,
  });
}

async function page(series: Series, cursor: string | undefined): Promise<{ documents: Document[]; next: string }> {
  if (series === 'receipts') {
    const found = await answer(api.GET('/api/v1/consumer/receipts', { params: { query: { cursor } } }));
    return { documents: found.receipts, next: found.next_cursor };
  }
  const query = { cursor, credit_notes: series === 'credit-notes' || undefined };
  const found = await answer(api.GET('/api/v1/consumer/invoices', { params: { query } }));
  return { documents: found.invoices, next: found.next_cursor };
}

function columns(series: Series): Column<Document>[] {
  return [
    { name: 'Number', cell: (document) => document.number },
    { name: 'Issued', cell: (document) => <Moment at={document.at} /> },
    ...(series === 'invoices' ? [{ name: 'Month', cell: (document: Document) => document.month }] : []),
    ...(series === 'credit-notes' ? [{ name: 'To invoice', cell: (document: Document) => document.refers_to }] : []),
    { name: 'Total', numeric: true, cell: (document) => <Money usd={document.total_usd_str} /> },
  ];
}
