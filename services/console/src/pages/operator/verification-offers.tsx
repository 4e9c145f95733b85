import { NativeSelect, SimpleGrid, Stack, TextInput } from '@mantine/core';

import { answer, api, type Schemas } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment, State } from '../../ui/text';
import { Detail } from './detail';
import { ProviderLink } from './links';
import { useCursorList } from './lists';
import { OfferDetail } from './verification-offer';
import { Lane } from './verification-lane';
import { benchmarkTone, evidence, levelNames, levelTone } from './verification-words';

type Offering = Schemas['Offering'];

/** The offers of providers. An opened one is in the address as `of` and `model`. */
export function Offers() {
  const [filters, setFilters] = useFilters({ provider: '', level: '', of: '', model: '' });
  const provider = filters.provider.trim();
  const list = useCursorList(['admin', 'verification', 'offerings', provider, filters.level], (cursor) =>
    answer(
      api.GET('/api/v1/admin/verification/offerings', {
        params: {
          query: { provider_id: provider, level: provider === '' ? filters.level : '', cursor, page_size: 100 },
        },
      }),
    ),
  );
  const rows = list.pages.flatMap((page) => page.list);
  const opened = filters.of !== '' && filters.model !== '';
  return (
    <Section
      title="Offers"
      json={rows}
      note="One row is one model of one provider. Evidence against it moves it along the ladder: normal, watch, notice, confirm, penalty."
    >
      <Stack>
        <SimpleGrid cols={{ base: 1, sm: 2 }}>
          <TextInput
            label="Provider"
            description="Its id; empty for all"
            value={filters.provider}
            onChange={(event) => setFilters({ provider: event.currentTarget.value })}
          />
          <NativeSelect
            label="Level"
            description={provider === '' ? 'Only these' : 'Not read beside a provider'}
            value={filters.level}
            data={[{ value: '', label: 'All' }, ...levelNames]}
            disabled={provider !== ''}
            onChange={(event) => setFilters({ level: event.currentTarget.value })}
          />
        </SimpleGrid>
        <Loaded query={list.query}>
          {() => (
            <DataTable
              caption="Offers and where they stand"
              columns={columns}
              rows={rows}
              id={(one) => `${one.provider_id} ${one.model_id}`}
              onOpen={(one) => setFilters({ of: one.provider_id, model: one.model_id })}
              empty={
                provider === '' && filters.level === ''
                  ? 'No provider has offered a model yet.'
                  : 'No offer fits these filters.'
              }
              more={list.more}
              loadingMore={list.loadingMore}
            />
          )}
        </Loaded>
      </Stack>
      <Detail
        title={`${filters.model}, as one provider serves it`}
        open={opened}
        onClose={() => setFilters({ of: '', model: '' })}
      >
        {opened && <OfferDetail providerId={filters.of} modelId={filters.model} />}
      </Detail>
    </Section>
  );
}

const columns: Column<Offering>[] = [
  { name: 'Model', cell: (one) => one.model_id },
  { name: 'Provider', cell: (one) => <ProviderLink id={one.provider_id} /> },
  { name: 'Level', cell: (one) => <State tone={levelTone(one.level)}>{one.level}</State> },
  { name: 'Lane', cell: (one) => <Lane offering={one} /> },
  { name: 'Evidence', numeric: true, cell: (one) => evidence(one.evidence) },
  { name: 'Trust', numeric: true, cell: (one) => one.trust.toFixed(2) },
  {
    name: 'Cap in tokens',
    numeric: true,
    cell: (one) => (one.cap_tokens === 0 ? '–' : one.cap_tokens.toLocaleString('en-US')),
  },
  { name: 'Benchmark', cell: (one) => <State tone={benchmarkTone(one.benchmark)}>{one.benchmark}</State> },
  { name: 'Moved', cell: (one) => <Moment at={one.moved_at} withAge /> },
];
