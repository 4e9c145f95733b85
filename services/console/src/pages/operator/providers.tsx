import { Checkbox, NativeSelect, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { answer, api } from '../../api/client';
import { percent } from '../../format/quantity';
import { useFilters } from '../../ui/filters';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment, State } from '../../ui/text';
import { Act } from './act';
import { needs } from './allowed';
import { ProviderLink } from './links';
import { useCountedList, useDone } from './lists';
import { missingOf, shownStatus, statuses, statusWord, type Provider } from './provider-words';
import { useSteadyKey } from './steady-key';

export default function Providers() {
  const list = useCountedList(['admin', 'providers'], (page) =>
    answer(api.GET('/api/v1/admin/providers', { params: { query: { page, page_size: 200 } } })),
  );
  return (
    <Page
      title="Providers"
      lead="Who serves, who waits for you, and who is shut out. Open a provider to decide."
      actions={<NewProvider />}
    >
      <Loaded query={list.query}>
        {() => <Listed rows={list.rows} total={list.total} more={list.more} loadingMore={list.loadingMore} />}
      </Loaded>
    </Page>
  );
}

interface ListedProps {
  rows: Provider[];
  total: number;
  more: (() => void) | undefined;
  loadingMore: boolean;
}

function Listed({ rows, total, more, loadingMore }: ListedProps) {
  const [filters, setFilters] = useFilters({ q: '', status: '', online: '', missing: '', kind: '' });
  const words = filters.q.trim().toLowerCase();
  const shown = rows.filter(
    (one) =>
      (words === '' ||
        [one.name, one.provider_id, one.owner_address, one.beneficiary_address].some((text) =>
          text.toLowerCase().includes(words),
        )) &&
      (filters.status === '' || statusWord(one.status) === filters.status) &&
      (filters.online === '' || one.online) &&
      (filters.missing === '' || missingOf(one).includes(filters.missing)) &&
      (filters.kind === '' || kindOf(one) === filters.kind),
  );
  const of = (status: string) => rows.filter((one) => statusWord(one.status) === status).length;
  const note =
    more === undefined
      ? 'The oldest first.'
      : `The filters see the ${rows.length} of ${total} that are loaded, the oldest first. Show more to search all.`;
  return (
    <>
      <SimpleGrid cols={{ base: 1, xs: 3 }}>
        <Figure label="Under review" note="They wait for an operator.">
          {of('under review')}
        </Figure>
        <Figure label="Active and connected" note={`Of ${of('active')} active.`}>
          {rows.filter((one) => one.status === 'PROVIDER_STATUS_ACTIVE' && one.online).length}
        </Figure>
        <Figure label="Suspended" note="By an operator, a refund, a card or an exit.">
          {of('suspended')}
        </Figure>
      </SimpleGrid>
      <Section title="All providers" note={note} json={shown}>
        <Stack>
          <Filters filters={filters} set={setFilters} />
          <DataTable
            caption="Providers"
            columns={columns}
            rows={shown}
            id={(one) => one.provider_id}
            empty={rows.length === 0 ? 'No provider has signed up yet.' : 'No provider fits these filters.'}
            more={more}
            loadingMore={loadingMore}
          />
        </Stack>
      </Section>
    </>
  );
}

type FilterName = 'q' | 'status' | 'online' | 'missing' | 'kind';

function Filters({
  filters,
  set,
}: {
  filters: Record<FilterName, string>;
  set: (change: Partial<Record<FilterName, string>>) => void;
}) {
  return (
    <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }}>
      <TextInput
        label="Search"
        description="Name, id or wallet"
        value={filters.q}
        onChange={(event) => set({ q: event.currentTarget.value })}
      />
      <NativeSelect
        label="Status"
        description="Only these"
        value={filters.status}
        data={[{ value: '', label: 'All' }, ...statuses.map(statusWord)]}
        onChange={(event) => set({ status: event.currentTarget.value })}
      />
      <NativeSelect
        label="Without"
        description="What activation needs"
        value={filters.missing}
        data={[{ value: '', label: 'Anything' }, 'collateral', 'GPU', 'benchmark']}
        onChange={(event) => set({ missing: event.currentTarget.value })}
      />
      <NativeSelect
        label="Kind"
        description="Only these"
        value={filters.kind}
        data={[{ value: '', label: 'All' }, 'provider', 'vendor', 'reference']}
        onChange={(event) => set({ kind: event.currentTarget.value })}
      />
      <Checkbox
        label="Connected now"
        checked={filters.online !== ''}
        onChange={(event) => set({ online: event.currentTarget.checked ? 'yes' : '' })}
      />
    </SimpleGrid>
  );
}

function kindOf(provider: Provider): string {
  if (provider.vendor) return 'vendor';
  return provider.reference ? 'reference' : 'provider';
}

const columns: Column<Provider>[] = [
  { name: 'Provider', cell: (one) => <Name provider={one} /> },
  { name: 'Status', cell: (one) => <Status provider={one} /> },
  { name: 'Missing', cell: (one) => missingOf(one).join(', ') || '–' },
  { name: 'Region', cell: (one) => one.region || '–' },
  { name: 'Uptime 24 h', numeric: true, cell: (one) => percent(one.uptime_24h) },
  { name: 'Uptime 30 d', numeric: true, cell: (one) => percent(one.uptime_30d) },
  { name: 'Since', cell: (one) => <Moment at={one.created_at} /> },
];

function Name({ provider }: { provider: Provider }) {
  return (
    <span className="breakable">
      {provider.name || 'no name'}
      {kindOf(provider) === 'provider' ? '' : ` (${kindOf(provider)})`}
      <Text component="div" size="xs">
        <ProviderLink id={provider.provider_id} />
      </Text>
    </span>
  );
}

function Status({ provider }: { provider: Provider }) {
  const { word, tone } = shownStatus(provider);
  return <State tone={tone}>{word}</State>;
}

/** Opens an account for a provider that does not sign up by itself, such as a reference of the platform. */
function NewProvider() {
  const navigate = useNavigate();
  const done = useDone();
  const key = useSteadyKey();
  const [name, setName] = useState('');
  const [region, setRegion] = useState('');
  return (
    <Act
      label="New provider"
      title="Open an account for a provider?"
      permission={needs['POST /api/v1/admin/providers']}
      facts={[['Second person', 'none is needed']]}
      params={['name', 'region']}
      fields={(form) => (
        <>
          <TextInput
            label="Name"
            description="1 to 64 characters, which consumers see."
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={form.of('name')}
          />
          <TextInput
            label="Region"
            description="Such as eu-central. It may be empty."
            value={region}
            onChange={(event) => setRegion(event.currentTarget.value)}
            error={form.of('region')}
          />
        </>
      )}
      run={() =>
        answer(
          api.POST('/api/v1/admin/providers', {
            body: { name, region, idempotency_key: key.of(`${name}\n${region}`) },
          }),
        )
      }
      done={({ provider }) => {
        key.clear();
        done('The account is open.');
        if (provider !== null) void navigate(`/providers/${provider.provider_id}`);
      }}
    >
      The account is pending, and has no user. Give it a key on its page. It earns once collateral, machine and
      benchmark are there.
    </Act>
  );
}
