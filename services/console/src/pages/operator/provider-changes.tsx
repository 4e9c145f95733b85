// What happened to a provider, whoever did it.

import { useInfiniteQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment } from '../../ui/text';
import { operatorName } from './history';
import { causeWord, statusWord } from './provider-words';

type Change = Schemas['StatusChange'];

const columns: Column<Change>[] = [
  { name: 'When', cell: (change) => <Moment at={change.changed_at} /> },
  { name: 'What', cell: (change) => what(change) },
  {
    name: 'Status',
    cell: (change) =>
      change.from === change.to ? statusWord(change.to) : `${statusWord(change.from)} → ${statusWord(change.to)}`,
  },
  {
    name: 'By',
    cell: (change) => (change.by.startsWith('operator') ? `operator ${operatorName(change.by)}` : change.by),
  },
  { name: 'Reason', cell: (change) => <span className="breakable">{change.reason || '–'}</span> },
];

/** The cause is of entries about suspensions alone. */
function what(change: Change): string {
  const word = change.what.replaceAll('_', ' ');
  return /suspen|lift/.test(change.what) ? `${word} (${causeWord(change.cause)})` : word;
}

export function Changes({ id }: { id: string }) {
  const query = useInfiniteQuery({
    queryKey: ['admin', 'provider', id, 'changes'],
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/api/v1/admin/providers/{provider_id}/changes', {
          params: { path: { provider_id: id }, query: { page: pageParam, page_size: 50 } },
        }),
      ),
    initialPageParam: 1,
    getNextPageParam: (last) => (last.page * last.page_size < last.total ? last.page + 1 : undefined),
  });
  const rows = query.data?.pages.flatMap((page) => page.list) ?? [];
  return (
    <Section title="History" json={rows} note="The newest first: status, facts, addresses and suspensions.">
      <Loaded query={query}>
        {() => (
          <DataTable
            caption="What happened to the provider"
            columns={columns}
            rows={rows}
            id={(change) => `${change.changed_at} ${change.what} ${change.by} ${change.reason} ${change.cause}`}
            empty="Nothing has happened yet."
            more={query.hasNextPage ? () => void query.fetchNextPage() : undefined}
            loadingMore={query.isFetchingNextPage}
          />
        )}
      </Loaded>
    </Section>
  );
}
