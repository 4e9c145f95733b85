// Why a provider gets requests or does not, as one router has counted it.

import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { count } from '../../format/quantity';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment, State, type Tone } from '../../ui/text';
import { modelPath } from './catalog-data';
import { IdLink } from './links';
import { reasonWords } from './routing-words';

type Reject = Schemas['RejectCount'];
type Model = Schemas['ModelHealth'];

const tones: Record<string, Tone> = {
  closed: 'good',
  half_open: 'warning',
  open: 'bad',
  main: 'good',
  probe: 'warning',
  shut: 'bad',
};

function Word({ word }: { word: string }) {
  return <State tone={tones[word] ?? 'neutral'}>{word.replaceAll('_', ' ')}</State>;
}

const rejectColumns: Column<Reject>[] = [
  { name: 'Reason', cell: (one) => one.reason.replaceAll('_', ' ') },
  { name: 'Times', numeric: true, cell: (one) => count(one.count) },
  { name: 'Meaning', cell: (one) => reasonWords(one.reason) },
];

const modelColumns: Column<Model>[] = [
  { name: 'Model', cell: (one) => <IdLink value={one.model_id} to={modelPath(one.model_id)} what="model" /> },
  { name: 'Chosen', numeric: true, cell: (one) => count(one.chosen) },
  { name: 'Under way', numeric: true, cell: (one) => `${count(one.in_flight)} of ${count(one.capacity)}` },
  { name: 'Machines ready', numeric: true, cell: (one) => `${count(one.available_nodes)} of ${count(one.nodes)}` },
  { name: 'Breaker', cell: (one) => <Word word={one.breaker} /> },
  { name: 'Lane', cell: (one) => <Word word={one.lane} /> },
  {
    name: 'Window',
    numeric: true,
    cell: (one) => (one.context_length === '0' ? 'not known' : `${count(one.context_length)} tokens`),
  },
];

export function Routing({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ['admin', 'provider-routing', id],
    queryFn: () =>
      answer(api.GET('/api/v1/admin/providers/{provider_id}/routing', { params: { path: { provider_id: id } } })),
  });
  return (
    <Section
      title="Routing"
      json={query.data}
      note="Why requests went by this provider, and how its models stand. One router counts this from its own start."
    >
      <Loaded query={query}>
        {(data) => (
          <>
            <DataTable
              caption="Models of the provider at the router"
              columns={modelColumns}
              rows={data.models}
              id={(one) => one.model_id}
              empty="No machine of this provider is connected, so it has no models at the router."
            />
            <DataTable
              caption="Why the provider was passed over, the most frequent reason first"
              columns={rejectColumns}
              rows={data.rejects}
              id={(one) => one.reason}
              empty="It was never passed over."
            />
            Counted since <Moment at={data.since} withAge />
          </>
        )}
      </Loaded>
    </Section>
  );
}
