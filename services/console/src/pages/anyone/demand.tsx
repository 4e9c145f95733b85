import { Button, Checkbox, NativeSelect, NumberInput, SimpleGrid, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { dollars } from '../../format/money';
import { compact, count, duration, milliseconds } from '../../format/quantity';
import { Chart } from '../../ui/chart';
import { useFilters } from '../../ui/filters';
import { Anchor, Empty, Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, State, type Tone } from '../../ui/text';
import { modelPath } from './catalog';
import { estimated } from './figures';
import { own } from './own';
import { categories, unitOf, wordFor } from './words';

type Wanted = Schemas['ModelWanted'];

const defaults = { category: 'all', vram: '', unserved: 'no', sort: 'earnings' } as const;

/** For who has a GPU: which model to serve. */
export default function Demand() {
  const [view, set] = useFilters(defaults);
  const query = useQuery({
    queryKey: ['demand', view.category],
    queryFn: () => readDemand(view.category),
    refetchInterval: 60_000,
  });
  return (
    <Page
      title="Demand"
      lead={
        <>
          What was asked for in the last 24 hours, by model: where a GPU earns. Earnings are what was paid out for a
          model, shared over the providers online now. They are a look back, not a promise.
        </>
      }
      actions={
        <Button component={Link} to="/provider/start" variant="default">
          Become a provider
        </Button>
      }
    >
      <Section title="What fits my GPU">
        <Filters view={view} set={set} />
      </Section>
      <Loaded query={query}>{(demand) => <Board demand={demand} view={view} reset={() => set(defaults)} />}</Loaded>
    </Page>
  );
}

interface Demanded {
  models: Wanted[];
  /** Seconds since the figures were made; null where the answer does not say. */
  age: number | null;
}

async function readDemand(category: string): Promise<Demanded> {
  const call = api.GET('/api/v1/stats/model-demand', { params: { query: category === 'all' ? {} : { category } } });
  const { data } = await answer(call);
  const age = Number((await call).response.headers.get('Age') ?? NaN);
  return { models: data.models, age: Number.isFinite(age) ? age : null };
}

type View = Record<keyof typeof defaults, string>;

function Filters({ view, set }: { view: View; set: (change: Partial<View>) => void }) {
  return (
    <Stack>
      <SimpleGrid cols={{ base: 1, sm: 3 }} spacing="sm">
        <NativeSelect
          label="Type"
          value={view.category}
          onChange={(event) => set({ category: event.currentTarget.value })}
          data={[
            { value: 'all', label: 'All' },
            ...Object.entries(categories).map(([value, label]) => ({ value, label })),
          ]}
        />
        <NumberInput
          label="VRAM of my GPU, in GB"
          placeholder="any"
          min={0}
          max={100_000}
          allowDecimal={false}
          value={Number.isNaN(vramOf(view)) ? '' : vramOf(view)}
          onChange={(value) => set({ vram: String(value) })}
        />
        <NativeSelect
          label="Order"
          value={view.sort}
          onChange={(event) => set({ sort: event.currentTarget.value })}
          data={[
            { value: 'earnings', label: 'Most earned by a provider' },
            { value: 'requests', label: 'Most requests' },
            { value: 'change', label: 'Fastest growing' },
          ]}
        />
      </SimpleGrid>
      <Checkbox
        label="Only models that nobody serves now"
        checked={view.unserved === 'yes'}
        onChange={(event) => set({ unserved: event.currentTarget.checked ? 'yes' : 'no' })}
      />
    </Stack>
  );
}

/** The GB of memory that an address asks for; NaN where it asks for none, or for no number. */
function vramOf(view: View): number {
  return /^\d{1,4}$/.test(view.vram) ? Number(view.vram) : NaN;
}

const orders: Record<string, (a: Wanted, b: Wanted) => number> = {
  earnings: (a, b) => b.est_daily_earnings - a.est_daily_earnings,
  requests: (a, b) => b.requests_24h - a.requests_24h,
  change: (a, b) => b.demand_change_pct - a.demand_change_pct,
};

function Board({ demand, view, reset }: { demand: Demanded; view: View; reset: () => void }) {
  const vram = vramOf(view);
  const shown = demand.models
    .filter((one) => !(one.min_vram_gb > vram) && (view.unserved !== 'yes' || one.online_providers === 0))
    .sort(
      (a, b) =>
        (own(orders, view.sort)?.(a, b) ?? 0) ||
        b.requests_24h - a.requests_24h ||
        a.model_id.localeCompare(b.model_id),
    );
  const asked = demand.models.filter((one) => one.requests_24h > 0).sort((a, b) => b.requests_24h - a.requests_24h);
  return (
    <>
      <Section
        title="Models"
        json={shown}
        note={
          <>
            Only open models are here, because providers serve no gateway models. A trend compares with the 24 hours
            before.
            {demand.age !== null && demand.age >= 60 && ` These figures are ${duration(demand.age)} old.`}
          </>
        }
      >
        {shown.length === 0 ? (
          <Empty
            action={
              <Button variant="default" onClick={reset}>
                Show all models
              </Button>
            }
          >
            No open model fits these filters.
          </Empty>
        ) : (
          <DataTable caption="Demand by model" columns={columns} rows={shown} id={(one) => one.model_id} empty="" />
        )}
      </Section>
      {asked.length > 0 && (
        <Chart
          title="Most requests in 24 hours"
          rows={asked.slice(0, 10)}
          at="model_id"
          series={[{ name: 'requests_24h', label: 'Requests' }]}
          columns={columns.slice(0, 2)}
          value={count}
          empty="Nothing was asked for in the last 24 hours."
        />
      )}
    </>
  );
}

const trends: Record<Wanted['demand_trend'], { word: string; tone: Tone }> = {
  up: { word: 'growing', tone: 'good' },
  down: { word: 'shrinking', tone: 'warning' },
  stable: { word: 'steady', tone: 'neutral' },
};

const columns: Column<Wanted>[] = [
  { name: 'Model', cell: (one) => <Name one={one} /> },
  { name: 'Requests, 24 h', numeric: true, cell: (one) => count(one.requests_24h) },
  { name: 'Trend', cell: (one) => <Trend one={one} /> },
  { name: 'Providers online', numeric: true, cell: (one) => one.online_providers },
  { name: 'Earned by one in a day', numeric: true, cell: (one) => estimated(one.est_daily_earnings) },
  { name: 'Paid by consumers, 24 h', numeric: true, cell: (one) => estimated(one.revenue_24h) },
  { name: 'Tokens, 24 h', numeric: true, cell: (one) => compact(one.tokens_24h) },
  {
    name: 'Latency, mean',
    numeric: true,
    cell: (one) => (one.avg_latency_ms === 0 ? '–' : milliseconds(one.avg_latency_ms)),
  },
  {
    name: 'VRAM',
    numeric: true,
    optional: true,
    cell: (one) => (one.min_vram_gb === 0 ? '–' : `${one.min_vram_gb} GB`),
  },
];

function Name({ one }: { one: Wanted }) {
  return (
    <Stack gap={2} align="flex-start">
      <Anchor component={Link} to={modelPath(one.model_id)} fw={600} className="breakable">
        {one.model_name || one.model_id}
      </Anchor>
      <Id value={one.model_id} what="model id" full />
      <Text span size="sm" c="var(--muted)">
        {wordFor(categories, one.category)}, {listPrice(one)}
      </Text>
    </Stack>
  );
}

/** What consumers pay. A price per 1M tokens has at most six decimals, and a price per image or minute nine. */
function listPrice(one: Wanted): string {
  const price = (usd: number) => dollars(usd.toFixed(9));
  const unit = unitOf(one);
  if (one.pricing_unit === 'per_image') return `${price(one.output_price)} for each ${unit}`;
  if (one.pricing_unit === 'per_minute') return `${price(one.input_price)} for each ${unit}`;
  return `${price(one.input_price)} in, ${price(one.output_price)} out for ${unit}`;
}

function Trend({ one }: { one: Wanted }) {
  const { word, tone } = trends[one.demand_trend];
  const change = `${one.demand_change_pct > 0 ? '+' : ''}${one.demand_change_pct.toFixed(1)}%`;
  return (
    <>
      <State tone={tone}>{word}</State>{' '}
      {one.demand_change_pct !== 0 && (
        <Text span size="sm" className="tabular">
          {change}
        </Text>
      )}
    </>
  );
}
