import { NativeSelect, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';

import { answer, api, type Schemas } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { JsonView } from '../../ui/json';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { Act } from './act';
import { needs } from './allowed';
import { Detail } from './detail';
import { History } from './history';
import { ProviderLink } from './links';
import { useCountedList, useDone } from './lists';

type Endpoint = Schemas['ExternalEndpoint'];

export default function Endpoints() {
  const [filters, setFilters] = useFilters({ provider: '', state: '', q: '', endpoint: '' });
  const provider = filters.provider.trim();
  const list = useCountedList(['admin', 'endpoints', provider], (page) =>
    answer(
      api.GET('/api/v1/admin/external-endpoints', {
        params: { query: { provider_id: provider, page, page_size: 200 } },
      }),
    ),
  );
  const words = filters.q.trim().toLowerCase();
  const shown = list.rows.filter(
    (one) =>
      (words === '' ||
        `${one.name} ${one.base_url} ${one.models.map((model) => model.model_id).join(' ')}`
          .toLowerCase()
          .includes(words)) &&
      (filters.state === '' || stateOf(one) === filters.state),
  );
  const of = (state: string) => list.rows.filter((one) => stateOf(one) === state).length;
  const opened = list.rows.find((one) => one.endpoint_id === filters.endpoint);
  return (
    <Page
      title="External endpoints"
      lead="Servers of providers and vendors that hubs call. They serve where no connected provider can."
    >
      <Loaded query={list.query}>
        {() => (
          <>
            <SimpleGrid cols={{ base: 1, xs: 3 }}>
              <Figure label="Healthy">{of('healthy')}</Figure>
              <Figure label="Unhealthy" note="Probes or requests fail.">
                {of('unhealthy')}
              </Figure>
              <Figure label="Switched off" note="By an operator.">
                {of('switched off')}
              </Figure>
            </SimpleGrid>
            <Section title="Endpoints" json={shown} note="The oldest first. Probes come every 30 seconds.">
              <Stack>
                <Filters filters={filters} set={setFilters} />
                <DataTable
                  caption="External endpoints"
                  columns={columns}
                  rows={shown}
                  id={(one) => one.endpoint_id}
                  onOpen={(one) => setFilters({ endpoint: one.endpoint_id })}
                  empty={
                    list.rows.length === 0
                      ? 'No provider has registered an endpoint.'
                      : 'No endpoint fits these filters.'
                  }
                  more={list.more}
                  loadingMore={list.loadingMore}
                />
              </Stack>
            </Section>
          </>
        )}
      </Loaded>
      <Detail
        title={opened?.name || 'Endpoint'}
        open={opened !== undefined}
        onClose={() => setFilters({ endpoint: '' })}
      >
        {opened !== undefined && <Opened endpoint={opened} />}
      </Detail>
    </Page>
  );
}

type FilterName = 'provider' | 'state' | 'q' | 'endpoint';

function Filters({
  filters,
  set,
}: {
  filters: Record<FilterName, string>;
  set: (change: Partial<Record<FilterName, string>>) => void;
}) {
  return (
    <SimpleGrid cols={{ base: 1, sm: 3 }}>
      <TextInput
        label="Search"
        description="Name, address or model"
        value={filters.q}
        onChange={(event) => set({ q: event.currentTarget.value })}
      />
      <TextInput
        label="Provider"
        description="Its id; empty for all"
        value={filters.provider}
        onChange={(event) => set({ provider: event.currentTarget.value })}
      />
      <NativeSelect
        label="State"
        description="Only these"
        value={filters.state}
        data={[{ value: '', label: 'All' }, 'healthy', 'unhealthy', 'new', 'switched off']}
        onChange={(event) => set({ state: event.currentTarget.value })}
      />
    </SimpleGrid>
  );
}

function stateOf(endpoint: Endpoint): string {
  return endpoint.disabled_at === null ? endpoint.state : 'switched off';
}

const columns: Column<Endpoint>[] = [
  { name: 'Endpoint', cell: (one) => one.name || one.endpoint_id },
  { name: 'Address', cell: (one) => <span className="breakable">{one.base_url}</span> },
  { name: 'Provider', cell: (one) => <ProviderLink id={one.provider_id} /> },
  { name: 'State', cell: (one) => <StateOf endpoint={one} /> },
  { name: 'Problem', cell: (one) => problems[one.last_error] ?? (one.last_error.replaceAll('_', ' ') || '–') },
  { name: 'Models', numeric: true, cell: (one) => one.models.length },
  { name: 'Checked', cell: (one) => <Moment at={one.checked_at} withAge /> },
];

const problems: Record<string, string> = {
  unreachable: 'it cannot be reached',
  unauthorized: 'it refuses the key',
  unexpected_status: 'it answers with an unexpected status',
  unexpected_answer: 'it answers something unexpected',
  models_missing: 'its list lacks a model',
  key_unreadable: 'its key cannot be read',
  origin_taken: 'another provider serves from this server',
  requests_failing: 'probes are good, requests fail',
};

function StateOf({ endpoint }: { endpoint: Endpoint }) {
  const state = stateOf(endpoint);
  const tone = state === 'healthy' ? 'good' : state === 'new' ? 'busy' : state === 'switched off' ? 'neutral' : 'bad';
  return <State tone={tone}>{state}</State>;
}

function Opened({ endpoint }: { endpoint: Endpoint }) {
  return (
    <>
      <Facts
        facts={[
          ['Id', <Id key="id" value={endpoint.endpoint_id} what="endpoint id" full />],
          ['Provider', <ProviderLink key="provider" id={endpoint.provider_id} />],
          ['Address', endpoint.base_url],
          ['State', <StateOf key="state" endpoint={endpoint} />],
          ['Called by hub', endpoint.hub_id || 'none'],
          ['A key is kept', endpoint.has_key ? 'yes' : 'no'],
          ['Shares its server', endpoint.origin_shared ? 'it may' : 'it may not'],
          ['Switched off', <Moment key="off" at={endpoint.disabled_at} />],
          ['Because', endpoint.disabled_reason || '–'],
          ['Registered', <Moment key="created" at={endpoint.created_at} />],
        ]}
      />
      <DataTable
        caption="Models of the endpoint"
        columns={[
          { name: 'Model', cell: (model) => <span className="breakable">{model.model_id}</span> },
          {
            name: 'Named there',
            cell: (model) => <span className="breakable">{model.local_model || model.model_id}</span>,
          },
          { name: 'Listed', cell: (model) => (model.listed ? 'yes' : 'no') },
          { name: 'At once', numeric: true, cell: (model) => model.capacity || 8 },
          {
            name: 'Context',
            numeric: true,
            cell: (model) => (model.context_length === 0 ? 'not said' : model.context_length.toLocaleString('en-US')),
          },
        ]}
        rows={endpoint.models}
        id={(model) => model.model_id}
        empty="It has no models."
      />
      <Switches endpoint={endpoint} />
      <div>
        <JsonView value={endpoint} title="Endpoint" />
      </div>
      <History subject={endpoint.endpoint_id} service="provider-hub" />
    </>
  );
}

function Switches({ endpoint }: { endpoint: Endpoint }) {
  const done = useDone();
  const permission = needs['POST /api/v1/admin/external-endpoints/{endpoint_id}/state'];
  const off = endpoint.disabled_at !== null;
  const shared = endpoint.origin_shared;
  function say(body: { disabled?: boolean; origin_shared?: boolean; reason: string }) {
    const path = { endpoint_id: endpoint.endpoint_id };
    return answer(api.POST('/api/v1/admin/external-endpoints/{endpoint_id}/state', { params: { path }, body }));
  }
  const facts: [string, string][] = [
    ['To whom', `all endpoints of the provider at ${originOf(endpoint.base_url)}, later ones too`],
    ['Second person', 'none is needed'],
  ];
  return (
    <Stack gap="xs" align="flex-start">
      <Text size="sm" c="var(--muted)">
        What you say holds for all endpoints of the provider with this scheme, host and port.
      </Text>
      <Act
        label={off ? 'Switch on' : 'Switch off'}
        title={off ? 'Let it back into service?' : 'Take it out of service?'}
        permission={permission}
        destructive={!off}
        facts={facts}
        reason="Why, in at most 150 characters. The provider sees it."
        run={({ reason }) => say({ disabled: !off, reason })}
        done={() => done(off ? 'It is back in service.' : 'It is out of service.')}
      >
        {off
          ? 'Hubs probe it again, and route to it once it is healthy.'
          : 'It gets no new requests. Requests under way end as they began, and are paid.'}
      </Act>
      <Act
        label={shared ? 'Forbid a shared server' : 'Allow a shared server'}
        title={shared ? 'Forbid it to share its server?' : 'Let it share its server?'}
        permission={permission}
        destructive={shared}
        facts={facts}
        reason="Why, in at most 150 characters."
        run={({ reason }) => say({ origin_shared: !shared, reason })}
        done={() => done('Your word is recorded.')}
      >
        {shared
          ? 'It serves from there only while no other provider does.'
          : 'It may serve from a server from which another provider serves, too, for example where both are customers of one company.'}
      </Act>
    </Stack>
  );
}

function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : url;
}
