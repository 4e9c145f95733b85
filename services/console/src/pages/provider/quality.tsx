import { Text } from '@mantine/core';

import { milliseconds, percent } from '../../format/quantity';
import { Failure, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { State, type Tone } from '../../ui/text';
import { maxOffers, useOwnOffers, type Offer } from './offers';

interface Row {
  model: string;
  offer: Offer | null;
}

const trusts: Record<string, Tone> = { high: 'good', normal: 'neutral', probation: 'busy' };

const columns: Column<Row>[] = [
  { name: 'Model', cell: (row) => <span className="breakable">{row.model}</span> },
  { name: 'Uptime in 30 days', cell: (row) => share(row.offer?.uptime_30d), numeric: true },
  { name: 'Success in 24 hours', cell: (row) => share(row.offer?.success_rate_24h), numeric: true },
  { name: 'Time to first token, median', cell: (row) => time(row.offer?.ttft_ms_p50), numeric: true },
  { name: 'Time to first token, 95 %', cell: (row) => time(row.offer?.ttft_ms_p95), numeric: true },
  {
    name: 'Tokens a second, median',
    cell: (row) => row.offer?.tokens_per_second_p50?.toFixed(1) ?? '–',
    numeric: true,
  },
  {
    name: 'Trust',
    cell: (row) =>
      row.offer === null ? (
        'not offered now'
      ) : (
        <State tone={trusts[row.offer.trust] ?? 'neutral'}>{row.offer.trust}</State>
      ),
  },
];

/** How good the provider's offers are, as consumers see them, too. */
export function Quality({ provider, models }: { provider: string; models: string[] }) {
  const offers = useOwnOffers(models, provider);
  const failed = offers.find((offer) => offer.isError);
  const rows = offers.flatMap((offer, n) =>
    offer.data === undefined ? [] : [{ model: models[n] ?? '', offer: offer.data }],
  );
  return (
    <Section
      title="Speed and reliability"
      json={rows}
      note={
        <>
          What consumers see of your offers. The router prefers who answers, answers fast and has room. A dash: not
          enough was served to tell.
        </>
      }
    >
      {failed !== undefined && (
        <Failure error={failed.error} retry={() => void failed.refetch()} title="Some figures are missing" />
      )}
      {rows.length === 0 && offers.some((offer) => offer.isPending) ? (
        <Text role="status" size="sm">
          Loading …
        </Text>
      ) : (
        <DataTable
          caption="Speed and reliability by model"
          columns={columns}
          rows={rows}
          id={(row) => row.model}
          empty="Figures appear once a machine with a model is connected."
        />
      )}
      {models.length > maxOffers && (
        <Text size="sm" c="var(--muted)">
          These are the first {maxOffers} of {models.length} models.
        </Text>
      )}
    </Section>
  );
}

function share(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : percent(value, 2);
}

function time(value: number | null | undefined): string {
  return value === null || value === undefined ? '–' : milliseconds(value);
}
