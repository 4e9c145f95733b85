import { Button, Drawer, Switch } from '@mantine/core';
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { dollars } from '../../format/money';
import { useFilters } from '../../ui/filters';
import { Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { KeyDetails } from './key-details';
import { NewKey } from './key-form';
import { keysKey } from './queries';
import { ShownOnce } from './secret';
import { keyTones, periodWord } from './words';

type Key = Schemas['ConsumerKey'];

export default function Keys() {
  const queries = useQueryClient();
  const [filters, setFilters] = useFilters({ key: '' });
  const [making, setMaking] = useState(false);
  const [secret, setSecret] = useState('');
  function onSecret(text: string) {
    setMaking(false);
    setSecret(text);
    void queries.invalidateQueries({ queryKey: keysKey });
  }
  return (
    <Page
      title="Keys"
      lead={
        <>
          A key lets a program send requests that this account pays for. Give each program its own key with a budget, so
          that one leak costs little and one revocation stops one program.
        </>
      }
      actions={
        <Button size="xs" onClick={() => setMaking(true)}>
          Make a key
        </Button>
      }
    >
      <KeyList onOpen={(id) => setFilters({ key: id })} />
      <NewKey opened={making} onClose={() => setMaking(false)} onMade={onSecret} />
      <Drawer
        opened={filters.key !== ''}
        onClose={() => setFilters({ key: '' })}
        position="right"
        size="lg"
        title="Key"
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        {filters.key !== '' && <KeyDetails id={filters.key} onSecret={onSecret} />}
      </Drawer>
      <ShownOnce
        secret={secret}
        title="Your new key"
        note="Send it in the header “Authorization: Bearer” of each request. Keep it out of code that others read."
        onClose={() => setSecret('')}
      />
    </Page>
  );
}

function KeyList({ onOpen }: { onOpen: (id: string) => void }) {
  const [filters, setFilters] = useFilters({ revoked: '' });
  const revoked = filters.revoked === 'yes';
  const keys = useInfiniteQuery({
    queryKey: [...keysKey, 'pages', revoked],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/api/v1/user/me/keys', {
          params: { query: { cursor: pageParam || undefined, page_size: 50, revoked } },
        }),
      ),
    getNextPageParam: (page) => page.next_cursor || undefined,
  });
  const list = keys.data?.pages.flatMap((page) => page.list) ?? [];
  return (
    <Section
      title="Your keys"
      json={list}
      actions={
        <Switch
          label="Revoked ones, too"
          checked={revoked}
          onChange={(event) => setFilters({ revoked: event.currentTarget.checked ? 'yes' : '' })}
        />
      }
    >
      <Loaded query={keys}>
        {() => (
          <DataTable
            caption="Keys"
            columns={columns}
            rows={list}
            id={(key) => key.key_id}
            empty="There is no key yet. Make one, then send your first request with it."
            onOpen={(key) => onOpen(key.key_id)}
            more={keys.hasNextPage ? () => void keys.fetchNextPage() : undefined}
            loadingMore={keys.isFetchingNextPage}
          />
        )}
      </Loaded>
    </Section>
  );
}

const columns: Column<Key>[] = [
  { name: 'Name', cell: (key) => <span className="breakable">{key.name || 'Without a name'}</span> },
  { name: 'Begins with', cell: (key) => <code>{key.key_prefix}…</code> },
  { name: 'State', cell: (key) => <State tone={keyTones[key.state] ?? 'neutral'}>{key.state}</State> },
  {
    name: 'Models',
    cell: (key) => (key.allowed_model_ids.length === 0 ? 'All' : `${key.allowed_model_ids.length} allowed`),
  },
  { name: 'Expires', cell: (key) => (key.expires_at === null ? 'Never' : <Moment at={key.expires_at} />) },
  { name: 'Last used', cell: (key) => (key.last_used_at === null ? 'Never' : <Moment at={key.last_used_at} />) },
  { name: 'Spent of its budget', numeric: true, cell: (key) => <Budget budget={key.budget} /> },
  { name: 'Id', wideOnly: true, cell: (key) => <Id value={key.key_id} what="key id" /> },
];

function Budget({ budget }: { budget: Schemas['SpendBound'] | null }) {
  if (budget === null) return <>No budget</>;
  return (
    <>
      {dollars(budget.spent_usd_str)} of {dollars(budget.bound_usd_str)} {periodWord(budget.period)}
    </>
  );
}
