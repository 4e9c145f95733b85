// Earnings by requests of a provider's own owner, which wait until an operator releases or forfeits them.

import { Button, Checkbox, Group, SimpleGrid, Text, TextInput } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { sum } from '../../format/amounts';
import { useFilters } from '../../ui/filters';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Money, Moment } from '../../ui/text';
import { RoleNote } from './act';
import { Forfeit, Release } from './held-acts';
import { AccountLink, IdLink, ProviderLink } from './links';

type Held = Schemas['HeldEarning'];

/** How it is known that account and provider have one owner. */
const rules: Record<string, string> = {
  same_user: 'One user owns both',
  wallet: 'They share a wallet',
  payout_address: 'They share the payout address',
  deposit_source: 'A deposit came from the same source',
  card: 'They share a card',
};

/** The most requests of one call. */
const maxRequests = 100;

export default function HeldEarnings() {
  const [filters, setFilters] = useFilters({ provider: '' });
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const query = useInfiniteQuery({
    queryKey: ['admin', 'held-earnings', filters.provider],
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/api/v1/admin/held-earnings', {
          params: { query: { provider_id: filters.provider, page_size: 100, cursor: pageParam } },
        }),
      ),
    initialPageParam: '',
    getNextPageParam: (last) => (last.next_cursor === '' ? undefined : last.next_cursor),
  });
  const rows = query.data?.pages.flatMap((page) => page.list) ?? [];
  const selected = rows.filter((row) => chosen.has(row.request_id));
  const more = query.hasNextPage;
  return (
    <Page
      title="Held earnings"
      lead="A provider earned these by requests of its own owner, and the platform bore a part of them. They are paid once an operator
        releases them."
    >
      <SimpleGrid cols={{ base: 1, sm: 3 }} aria-live="polite">
        <Figure label={more ? 'Held, of the rows below' : 'Held'}>
          {query.isSuccess ? <Money usd={sum(rows.map((row) => row.payout_usd_str))} /> : '–'}
        </Figure>
        <Figure label="Chosen" note={`${selected.length} of at most ${maxRequests} requests`}>
          <Money usd={sum(selected.map((row) => row.payout_usd_str))} />
        </Figure>
        <Figure label="Providers, of the rows below">
          {query.isSuccess ? new Set(rows.map((row) => row.provider_id)).size : '–'}
        </Figure>
      </SimpleGrid>
      <ByProvider
        key={filters.provider}
        provider={filters.provider}
        onChange={(provider) => setFilters({ provider })}
      />
      <Section
        title="Held requests"
        json={query.data?.pages}
        note="Look at the rule, and at what account and provider do. Release what is honest use. Forfeit what was made to draw on a plan."
      >
        <RoleNote permission="pay" />
        <Choice rows={rows} selected={selected} setChosen={setChosen} />
        <Loaded query={query}>
          {() => (
            <HeldTable
              rows={rows}
              chosen={chosen}
              setChosen={setChosen}
              more={more ? () => void query.fetchNextPage() : undefined}
              loadingMore={query.isFetchingNextPage}
              empty={filters.provider === '' ? 'Nothing is held.' : 'Nothing is held of this provider.'}
            />
          )}
        </Loaded>
      </Section>
    </Page>
  );
}

function ByProvider({ provider, onChange }: { provider: string; onChange: (provider: string) => void }) {
  const [typed, setTyped] = useState(provider);
  function submit(event: FormEvent) {
    event.preventDefault();
    onChange(typed.trim());
  }
  return (
    <form onSubmit={submit}>
      <Group align="flex-end" gap="xs">
        <TextInput
          label="Provider id"
          description="Empty shows all providers"
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
        />
        <Button type="submit" variant="default">
          Show
        </Button>
      </Group>
    </form>
  );
}

type SetChosen = (chosen: ReadonlySet<string>) => void;

/** What can be done with the chosen rows. */
function Choice({ rows, selected, setChosen }: { rows: Held[]; selected: Held[]; setChosen: SetChosen }) {
  if (rows.length === 0) return null;
  const none = () => setChosen(new Set());
  const tooMany = selected.length > maxRequests ? `Choose at most ${maxRequests} requests.` : '';
  return (
    <Group gap="xs" mb="sm">
      <Button
        size="xs"
        variant="default"
        onClick={() => setChosen(new Set(rows.slice(0, maxRequests).map((row) => row.request_id)))}
      >
        {rows.length > maxRequests ? `Choose the first ${maxRequests}` : 'Choose all'}
      </Button>
      <Button size="xs" variant="default" onClick={none} disabled={selected.length === 0}>
        Choose none
      </Button>
      <Release held={selected} blocked={selected.length === 0 ? 'Choose requests first.' : tooMany} done={none} />
      <Forfeit held={selected} blocked={selected.length === 0 ? 'Choose requests first.' : tooMany} done={none} />
      {tooMany !== '' && <Text size="sm">{tooMany}</Text>}
    </Group>
  );
}

interface HeldTableProps {
  rows: Held[];
  chosen: ReadonlySet<string>;
  setChosen: SetChosen;
  more: (() => void) | undefined;
  loadingMore: boolean;
  empty: string;
}

function HeldTable({ rows, chosen, setChosen, more, loadingMore, empty }: HeldTableProps) {
  function toggle(id: string) {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  }
  const columns: Column<Held>[] = [
    {
      name: 'Chosen',
      cell: (row) => (
        <Checkbox
          checked={chosen.has(row.request_id)}
          onChange={() => toggle(row.request_id)}
          aria-label={`Choose request ${row.request_id}`}
        />
      ),
    },
    {
      name: 'Request',
      cell: ({ request_id: id }) => <IdLink value={id} to={`/requests?id=${encodeURIComponent(id)}`} what="request" />,
    },
    { name: 'Provider', cell: (row) => <ProviderLink id={row.provider_id} /> },
    { name: 'Account', cell: (row) => <AccountLink id={row.account_id} /> },
    { name: 'Rule', cell: (row) => rules[row.rule] ?? row.rule.replaceAll('_', ' ') },
    { name: 'Earned by', cell: (row) => (row.plan_month === '' ? 'credit' : `plan of ${row.plan_month}`) },
    { name: 'Held', numeric: true, cell: (row) => <Money usd={row.payout_usd_str} /> },
    { name: 'Since', cell: (row) => <Moment at={row.held_at} /> },
  ];
  return (
    <DataTable
      caption="Held requests, the oldest first"
      columns={columns}
      rows={rows}
      id={(row) => row.request_id}
      empty={empty}
      more={more}
      loadingMore={loadingMore}
    />
  );
}
