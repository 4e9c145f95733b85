import { Button, Stack, Text } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { count, milliseconds, percent } from '../../format/quantity';
import { CodeBlock } from '../../ui/code';
import { Failure, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, State } from '../../ui/text';
import type { Model } from './catalog';
import { own } from './own';
import { useProviderStats, type ProviderStats } from './stats';
import { ofMany } from './told';
import { Price, wordFor } from './words';

type Offering = Schemas['PublicOffering'];

const pageSize = 100;

/** The providers that offer a model, those that are online first. */
export function Offerings({ model }: { model: Model }) {
  const query = useInfiniteQuery({
    queryKey: ['offerings', model.id],
    initialPageParam: 1,
    queryFn: async ({ pageParam: page }) => {
      const params = { path: { model_id: model.id }, query: { page, page_size: pageSize } };
      return (await answer(api.GET('/api/v1/models/{model_id}/providers', { params }))).data;
    },
    getNextPageParam: (last, _, page) => ((last?.list.length ?? 0) < pageSize ? undefined : page + 1),
    refetchInterval: (now) => ((now.state.data?.pages.length ?? 0) > 1 ? false : 30_000),
  });
  const rows = query.data?.pages.flatMap((page) => page?.list ?? []);
  const stats = useProviderStats().data;
  const first = rows?.find((one) => one.online) ?? rows?.[0];
  return (
    <Section
      title="Providers"
      json={rows}
      note={
        <>
          Requests are spread over the providers that are online. Providers that are in good health, answer fast and
          have room are chosen more often. Uptime is of the last 30 days. A dash means that too little has been seen.
        </>
      }
    >
      <Stack>
        {query.isError && <Failure error={query.error} retry={() => void query.refetch()} />}
        {rows === undefined && !query.isError && <Text role="status">Loading …</Text>}
        {rows !== undefined && (
          <DataTable
            caption={`Providers of ${model.name}`}
            columns={columns(model, stats)}
            rows={[...rows].sort((a, b) => Number(b.online) - Number(a.online))}
            id={(one) => one.provider_id}
            empty={<NoProvider model={model} />}
            more={query.hasNextPage ? () => void query.fetchNextPage() : undefined}
            loadingMore={query.isFetchingNextPage}
          />
        )}
        {first !== undefined && <Pin provider={first.provider_id} />}
      </Stack>
    </Section>
  );
}

function NoProvider({ model }: { model: Model }) {
  return (
    <Stack align="center" gap="sm" component="span">
      <span>Nobody offers this model now.{model.kind === 'open' ? ' Whoever has a GPU for it can.' : ''}</span>
      {model.kind === 'open' && (
        <Button component={Link} to="/provider/start" variant="default" size="xs">
          Become a provider
        </Button>
      )}
    </Stack>
  );
}

/** How to ask one provider alone. */
function Pin({ provider }: { provider: string }) {
  return (
    <div>
      <Text size="sm" mb={4}>
        To ask one provider alone, send these headers with its id. Such a request is paid from credit, never by a plan.
        Without the second header, others serve when that provider cannot.
      </Text>
      <CodeBlock
        label="Headers that choose a provider"
        code={`X-Svc-Provider: ${provider}\nX-Svc-Allow-Fallbacks: false`}
      />
    </div>
  );
}

const trusts: Record<string, string> = {
  high: 'high trust',
  normal: 'normal trust',
  probation: 'in probation',
};

const modes: Record<string, string> = { websocket: 'agent', external: 'external endpoint' };

const contextBases: Record<string, string> = {
  reported: 'reported',
  measured: 'measured',
  catalog: 'from the catalog',
};

function columns(model: Model, stats: Map<string, ProviderStats> | undefined): Column<Offering>[] {
  const or = (value: number | null, show: (value: number) => string) => (value === null ? '–' : show(value));
  return [
    { name: 'Provider', cell: (one) => <Provider offering={one} /> },
    { name: 'Uptime', numeric: true, cell: (one) => or(one.uptime_30d, (share) => percent(share, 2)) },
    {
      name: 'Time to first token',
      numeric: true,
      cell: (one) => (
        <Two
          first={or(one.ttft_ms_p50, milliseconds)}
          second={one.ttft_ms_p95 === null ? '' : `95% within ${milliseconds(one.ttft_ms_p95)}`}
        />
      ),
    },
    {
      name: 'Tokens a second',
      numeric: true,
      cell: (one) => or(one.tokens_per_second_p50, (value) => value.toFixed(1)),
    },
    {
      name: 'Requests, 24 h',
      numeric: true,
      cell: (one) => (
        <Two
          first={ofMany(stats?.get(one.provider_id)?.requests_24h, count)}
          second={stats?.get(one.provider_id)?.requests_24h == null ? '' : 'of all its models'}
        />
      ),
    },
    { name: 'Success, 24 h', numeric: true, cell: (one) => or(one.success_rate_24h, (share) => percent(share, 1)) },
    {
      name: 'Price in / out',
      numeric: true,
      cell: (one) => (
        <Text span inherit>
          <Price model={model} side="input" usd={one.input_price_str} /> /{' '}
          <Price model={model} side="output" usd={one.output_price_str} />
        </Text>
      ),
    },
    {
      name: 'Context',
      numeric: true,
      cell: (one) => <Two first={count(one.context_length)} second={wordFor(contextBases, one.context_basis)} />,
    },
    { name: 'Quantization', cell: (one) => one.quantization || '–' },
    { name: 'Region', cell: (one) => one.region || '–' },
  ];
}

function Two({ first, second }: { first: string; second: string }) {
  return (
    <Text span inherit>
      {first}
      {second !== '' && (
        <Text span size="sm" c="var(--muted)" display="block">
          {second}
        </Text>
      )}
    </Text>
  );
}

function Provider({ offering }: { offering: Offering }) {
  const trust = own(trusts, offering.trust);
  return (
    <Stack gap={2} align="flex-start">
      <Text span fw={600} className="breakable">
        {offering.provider_name || 'Unnamed'}
      </Text>
      <Id value={offering.provider_id} what="provider id" />
      <State tone={offering.online ? 'good' : 'neutral'}>{offering.online ? 'online' : 'offline'}</State>
      <Text span size="sm" c="var(--muted)">
        {wordFor(modes, offering.connection_mode)}
        {trust !== undefined && `, ${trust}`}
      </Text>
    </Stack>
  );
}
