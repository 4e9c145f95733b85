// Entries of the ledger with their legs. A settled request is an entry of the kind usage.

import { NativeSelect, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';

import { answer, api, type Schemas } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { JsonView } from '../../ui/json';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment } from '../../ui/text';
import { filterDefaults, instant, problemOf, type EntriesFilter } from './entries-filter';
import { LedgerAmount, useTrialBalance } from './ledger-accounts';
import { IdLink } from './links';
import { useCursorList } from './lists';

type Entry = Schemas['LedgerEntry'];

export function Entries() {
  const [filters, set] = useFilters(filterDefaults);
  const [settled] = useDebouncedValue(filters, 400);
  const problem = problemOf(settled);
  const query = { ...settled, since: instant(settled.since), until: instant(settled.until) };
  const list = useCursorList(
    ['admin', 'ledger-entries', query],
    (cursor) =>
      answer(api.GET('/api/v1/admin/ledger/entries', { params: { query: { ...query, cursor, page_size: 50 } } })),
    { enabled: problem === '' },
  );
  const rows = list.pages.flatMap((page) => page.list);
  return (
    <Section
      title="Entries"
      json={rows}
      note="The newest first. An owner’s settled requests are listed where a time is given."
    >
      <Stack>
        <Filters filters={filters} set={set} />
        {problem === '' ? (
          <Loaded query={list.query}>
            {() => (
              <DataTable
                caption="Entries of the ledger"
                columns={columns}
                rows={rows}
                id={(entry) => entry.entry_id}
                empty="No entry fits."
                more={list.more}
                loadingMore={list.loadingMore}
              />
            )}
          </Loaded>
        ) : (
          <Text size="sm">{problem}</Text>
        )}
      </Stack>
    </Section>
  );
}

function Filters({ filters, set }: { filters: EntriesFilter; set: (change: Partial<EntriesFilter>) => void }) {
  const kinds = [...new Set(useTrialBalance().data?.list.map((one) => one.account_kind) ?? [])];
  const known = filters.account_kind === '' || kinds.includes(filters.account_kind);
  const texts: [keyof EntriesFilter, string, string][] = [
    ['owner_id', 'Owner', 'The account, provider or vendor'],
    ['request_id', 'Request', 'Its cost and what was given back'],
    ['business_id', 'Business id', 'By what it was recorded once'],
  ];
  const times: [keyof EntriesFilter, string, string][] = [
    ['since', 'From (UTC)', 'At this time or later'],
    ['until', 'Until (UTC)', 'At most 31 days after'],
  ];
  return (
    <SimpleGrid cols={{ base: 1, xs: 2, md: 3 }}>
      <NativeSelect
        label="Account"
        description="Its kind, together with its owner"
        value={filters.account_kind}
        data={[{ value: '', label: 'Any' }, ...(known ? kinds : [filters.account_kind, ...kinds])]}
        onChange={(event) => set({ account_kind: event.currentTarget.value })}
      />
      {texts.map(([name, label, description]) => (
        <TextInput
          key={name}
          label={label}
          description={description}
          value={filters[name]}
          onChange={(event) => set({ [name]: event.currentTarget.value.trim() })}
        />
      ))}
      {times.map(([name, label, description]) => (
        <TextInput
          key={name}
          type="datetime-local"
          label={label}
          description={description}
          value={filters[name]}
          onChange={(event) => set({ [name]: event.currentTarget.value })}
        />
      ))}
    </SimpleGrid>
  );
}

const columns: Column<Entry>[] = [
  { name: 'When', cell: (entry) => <Moment at={entry.at} /> },
  { name: 'Kind', cell: (entry) => entry.kind.replaceAll('_', ' ') },
  { name: 'Entry', cell: (entry) => <Named entry={entry} /> },
  { name: 'Legs', cell: (entry) => <Legs entry={entry} /> },
  { name: 'Note', cell: (entry) => <span className="breakable">{entry.memo || '–'}</span> },
];

function Named({ entry }: { entry: Entry }) {
  if (entry.kind === 'usage')
    return <IdLink value={entry.entry_id} to={`/requests?id=${encodeURIComponent(entry.entry_id)}`} what="request" />;
  return <Id value={entry.entry_id} what="entry id" />;
}

function Legs({ entry }: { entry: Entry }) {
  return (
    <>
      {entry.legs.map((leg, n) => (
        <div key={n} className="breakable">
          {leg.account_kind} {leg.book} <LedgerAmount asset={leg.asset} amount={leg.amount} />
        </div>
      ))}
      <JsonView value={entry} title={`entry ${entry.entry_id}`} />
    </>
  );
}
