import { Button, SimpleGrid, Text } from '@mantine/core';
import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { Link } from 'react-router';

import { answer, api } from '../../api/client';
import { asApiError } from '../../api/error';
import { useNow } from '../../app/live';
import { compact, count, milliseconds, percent } from '../../format/quantity';
import { relative } from '../../format/time';
import { Chart } from '../../ui/chart';
import { Anchor, Failure, Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, State } from '../../ui/text';
import { modelPath, useCatalog, type Model } from './catalog';
import { isCallable } from './catalog-view';
import { useServiceStats, type Day, type ServiceStats } from './stats';
import { change, ofAll, told, whyWithheld } from './told';
import { categories, wordFor } from './words';

/** Whether requests are served at this moment. */
export default function Status() {
  const ready = useQuery({
    queryKey: ['readyz'],
    queryFn: () => answer(api.GET('/readyz')),
    refetchInterval: 15_000,
    retry: false, // each look is a fresh one
  });
  const stats = useServiceStats();
  const catalog = useCatalog();
  return (
    <Page
      title="Service status"
      lead={
        <>
          Whether requests are served now, and how the last 30 days went, in rounded figures. A number is withheld where
          fewer than 5 consumers paid, because it would show what one of them did. A 0 stands for fewer than 10
          requests, and a dash for a share or a time of fewer than 10.
        </>
      }
      actions={
        <Button variant="default" onClick={() => void ready.refetch()} loading={ready.isFetching}>
          Look again
        </Button>
      }
    >
      <Now ready={ready} stats={stats.data} />
      {ready.isError && <NotReady error={ready.error} />}
      <Loaded query={stats}>{(figures) => <Days days={figures.days} />}</Loaded>
      <Section
        title="Models without a provider"
        note="These are in the catalog and cannot be called, because no provider is online for them. A call answers 503 no_provider_online."
      >
        <Loaded query={catalog}>
          {(models) => (
            <DataTable
              caption="Models without a provider"
              columns={columns}
              rows={models.filter((model) => model.active && !isCallable(model))}
              id={(model) => model.id}
              empty={models.length === 0 ? 'The catalog has no models yet.' : 'Every model in service can be called.'}
            />
          )}
        </Loaded>
      </Section>
    </Page>
  );
}

function Now({ ready, stats }: { ready: UseQueryResult<unknown>; stats: ServiceStats | undefined }) {
  return (
    <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }}>
      <Figure label="The service" note={<Looked query={ready} />}>
        <span aria-live="polite">
          <Readiness query={ready} />
        </span>
      </Figure>
      <Figure label="Callable models" note={stats === undefined ? '' : `of ${count(stats.models_total)} in service`}>
        {told(stats?.models_callable, count)}
      </Figure>
      <Figure
        label="Providers online"
        note={stats === undefined ? '' : `${told(stats.providers_active, count)} are active`}
      >
        {told(stats?.providers_online, count)}
      </Figure>
      <Figure
        label="Requests in 24 hours"
        note={stats === undefined ? '' : change(stats.requests_24h, stats.requests_previous_24h)}
      >
        {ofAll(stats?.requests_24h, count)}
      </Figure>
      <Figure label="Success in 24 hours" note={`${told(stats?.retried_share_24h, percent)} needed another attempt`}>
        {told(stats?.success_rate_24h, (share) => percent(share, 2))}
      </Figure>
      <Figure label="Time to first token" note={`95% within ${told(stats?.ttft_ms_p95, milliseconds)}`}>
        {told(stats?.ttft_ms_p50, milliseconds)}
      </Figure>
      <Figure label="Tokens a second" note="of the median streamed answer">
        {told(stats?.tokens_per_second_p50, (value) => value.toFixed(1))}
      </Figure>
      <Figure label="Tokens in 24 hours" note={stats?.tokens_24h === null ? whyWithheld : 'prompts and answers'}>
        {ofAll(stats?.tokens_24h, compact)}
      </Figure>
    </SimpleGrid>
  );
}

function Days({ days }: { days: Day[] }) {
  const counted = days.some((day) => day.requests !== null && day.requests > 0);
  const judged = days.flatMap((day) =>
    day.success_rate === null ? [] : [{ day: day.day, success: day.success_rate * 100 }],
  );
  return (
    <>
      <Chart
        title="Requests of the last 30 days"
        rows={counted ? days : []}
        at="day"
        series={[{ name: 'requests', label: 'Requests' }]}
        columns={dayColumns}
        value={count}
        empty={`No day of the last 30 has a number to show: it is withheld, or below 10. Withheld means ${whyWithheld}.`}
        json={days}
      />
      <Chart
        title="Success of the last 30 days"
        rows={judged}
        at="day"
        kind="line"
        series={[{ name: 'success', label: 'Success, %' }]}
        columns={[
          { name: 'Day (UTC)', cell: (row) => row.day },
          { name: 'Success', numeric: true, cell: (row) => percent(row.success / 100, 2) },
        ]}
        value={(share) => `${share.toFixed(2)}%`}
        empty="No day has had the 10 requests from which a share is told."
      />
    </>
  );
}

const dayColumns: Column<Day>[] = [
  { name: 'Day (UTC)', cell: (day) => day.day },
  { name: 'Requests', numeric: true, cell: (day) => ofAll(day.requests, count) },
  { name: 'Success', numeric: true, cell: (day) => told(day.success_rate, (share) => percent(share, 2)) },
  { name: 'Time to first token', numeric: true, cell: (day) => told(day.ttft_ms_p50, milliseconds) },
];

function Readiness({ query }: { query: UseQueryResult<unknown> }) {
  if (query.isPending) return <Text inherit>…</Text>;
  if (query.isError) return <State tone="bad">not ready</State>;
  return <State tone="good">serves requests</State>;
}

function Looked({ query }: { query: UseQueryResult<unknown> }) {
  const now = useNow(5);
  const at = Math.max(query.dataUpdatedAt, query.errorUpdatedAt);
  if (at === 0) return null;
  return <>asked {relative(new Date(at).toISOString(), Math.max(now, at))}</>;
}

function NotReady({ error }: { error: unknown }) {
  const lost = asApiError(error).status === 0;
  return (
    <Failure error={error} title={lost ? 'The service cannot be reached from here' : 'A part of the service is away'} />
  );
}

const columns: Column<Model>[] = [
  {
    name: 'Model',
    cell: (model) => (
      <Anchor component={Link} to={modelPath(model.id)} className="breakable" inherit>
        {model.name || model.id}
      </Anchor>
    ),
  },
  { name: 'Id', cell: (model) => <Id value={model.id} what="model id" full /> },
  { name: 'Type', cell: (model) => wordFor(categories, model.category) },
];
