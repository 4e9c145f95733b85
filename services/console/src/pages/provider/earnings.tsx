import { Button, Group, SimpleGrid, TextInput } from '@mantine/core';
import { Link } from 'react-router';

import { useFilters } from '../../ui/filters';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { Money } from '../../ui/text';
import { ByDay } from './earnings-chart';
import { EarningsCsv } from './earnings-csv';
import { Months, Places } from './earnings-states';
import { useEarnings, type Earnings } from './queries';

export default function EarningsPage() {
  const earnings = useEarnings();
  return (
    <Page
      title="Earnings"
      lead={
        <>
          What you earned, where the money is now, and when it moves on. A request earns its tokens times the payout
          price of its model.
        </>
      }
      actions={
        <Button component={Link} to="/provider/payouts" size="xs">
          Take what is payable
        </Button>
      }
    >
      <Loaded query={earnings}>
        {(e) => (
          <>
            <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }} aria-live="polite">
              <Figure label="Payable now" note="Paid out when you ask">
                <Money usd={e.payable_usd_str} rounded />
              </Figure>
              <Period label="Earned today" of={e.today} />
              <Period label="Earned in 7 days" of={e.last_7_days} />
              <Period label="Earned in 30 days" of={e.last_30_days} />
            </SimpleGrid>
            <Places earnings={e} />
            <Months months={e.months} />
          </>
        )}
      </Loaded>
      <ByDay />
      <Csv />
    </Page>
  );
}

function Period({ label, of: period }: { label: string; of: Earnings['today'] }) {
  if (period === undefined) return null;
  return (
    <Figure
      label={label}
      note={
        <>
          Since {period.since}, of which <Money usd={period.unbatched_usd_str} rounded /> is not batched yet
        </>
      }
    >
      <Money usd={period.earned_usd_str} rounded />
    </Figure>
  );
}

function Csv() {
  const [days, set] = useFilters({ from: daysAgo(31), to: daysAgo(1) });
  const right = isDay(days.from) && isDay(days.to) && days.from <= days.to;
  return (
    <Section
      title="Lines as CSV"
      note={
        <>
          One row for each line of batched days: requests, refunds, holds and releases, with day, model, tokens and
          amount. At most 366 days at once. The file of one day is the one whose SHA-256 stands in that day’s statement.
        </>
      }
    >
      <Group align="flex-end" gap="sm">
        <Day label="From (UTC)" value={days.from} onChange={(from) => set({ from })} />
        <Day label="To (UTC)" value={days.to} onChange={(to) => set({ to })} />
        <EarningsCsv from={days.from} to={days.to} disabled={!right} />
      </Group>
    </Section>
  );
}

function Day({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <TextInput
      label={label}
      type="date"
      w={170}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      error={isDay(value) ? undefined : 'Name a day'}
    />
  );
}

function isDay(text: string): boolean {
  return /^\d{4}-\d{2}-\d{2}$/.test(text);
}

function daysAgo(days: number): string {
  return new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
}
