import { Button, Drawer, Group, Stack, Text } from '@mantine/core';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { save } from '../../ui/download';
import { JsonView } from '../../ui/json';
import { Failure } from '../../ui/page';
import { DataTable, Facts } from '../../ui/table';
import { Id, Moment, Money } from '../../ui/text';
import { factIf } from './facts';

type Document = Schemas['Document'];
type Party = Schemas['DocumentParty'];

export type Series = 'invoices' | 'credit-notes' | 'receipts';

export function seriesOf(text: string): Series {
  return text === 'credit-notes' || text === 'receipts' ? text : 'invoices';
}

/** Shows a document, and saves it as a page that can be printed. */
export function DocumentDrawer({
  series,
  document,
  onClose,
}: {
  series: Series;
  document: Document | null;
  onClose: () => void;
}) {
  const title = document === null ? '' : `${document.title} ${document.number}`;
  return (
    <Drawer
      opened={document !== null}
      onClose={onClose}
      position="right"
      size="lg"
      title={title}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {document !== null && <Content series={series} document={document} title={title} />}
    </Drawer>
  );
}

function Content({ series, document, title }: { series: Series; document: Document; title: string }) {
  return (
    <Stack>
      <Facts
        facts={[
          ['Number', <Id value={document.number} what="number" full />],
          ['Issued', <Moment at={document.at} />],
          ...factIf(document.month !== '', 'Month', document.month),
          ...factIf(document.refers_to !== '', 'To invoice', document.refers_to),
          ['Seller', <PartyText party={document.seller} />],
          ['Buyer', <PartyText party={document.buyer} />],
        ]}
      />
      <DataTable
        caption={`Lines of ${title}`}
        columns={[
          { name: 'What', cell: (line) => <LineText line={line} /> },
          { name: 'Amount', numeric: true, cell: (line) => <Money usd={line.amount_usd_str} /> },
        ]}
        rows={document.lines}
        id={(line) => `${line.text} ${line.detail} ${line.amount_usd_str}`}
        empty="It has no lines."
      />
      <Text fw={600} ta="right">
        Total <Money usd={document.total_usd_str} />
      </Text>
      {document.tax !== null && (
        <Text size="sm" ta="right">
          In it, {document.tax.name} of {document.tax.percent_str}%: <Money usd={document.tax.amount_usd_str} />
        </Text>
      )}
      {document.notes.map((note) => (
        <Text key={note} size="sm" className="breakable">
          {note}
        </Text>
      ))}
      <Actions series={series} document={document} title={title} />
    </Stack>
  );
}

function LineText({ line }: { line: Schemas['DocumentLine'] }) {
  return (
    <span className="breakable">
      {line.text}
      {line.detail !== '' && (
        <Text span size="sm" c="var(--muted)">
          {' '}
          {line.detail}
        </Text>
      )}
    </span>
  );
}

function PartyText({ party }: { party: Party | null }) {
  if (party === null) return <span>–</span>;
  const lines = [party.name, ...party.address, party.email, party.tax_id].filter((line) => line !== '');
  return (
    <Stack gap={0}>
      {lines.map((line) => (
        <span key={line} className="breakable">
          {line}
        </span>
      ))}
      {party.account_id !== '' && <Id value={party.account_id} what="account id" />}
    </Stack>
  );
}

function Actions({ series, document, title }: { series: Series; document: Document; title: string }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  async function go() {
    setBusy(true);
    setError(null);
    try {
      save(await printable(series, document.number), `${document.number}.html`);
    } catch (thrown) {
      setError(thrown);
    } finally {
      setBusy(false);
    }
  }
  return (
    <>
      {error !== null && <Failure error={error} title="Nothing was saved" />}
      <Group justify="flex-end">
        <JsonView value={document} title={title} />
        <Button size="xs" onClick={() => void go()} loading={busy}>
          Save as a page to print
        </Button>
      </Group>
    </>
  );
}

/** The document as HTML without script, which the service writes. */
function printable(series: Series, number: string): Promise<Blob> {
  const params = { path: { number: `${number}.html` } };
  if (series === 'receipts') return answer(api.GET('/api/v1/consumer/receipts/{number}', { params, parseAs: 'blob' }));
  return answer(api.GET('/api/v1/consumer/invoices/{number}', { params, parseAs: 'blob' }));
}
