// Parts of the platform's health. Each has its own error, so that one dead service does not blank the page.

import { Alert } from '@mantine/core';
import type { ReactNode } from 'react';

import type { Schemas } from '../../api/client';
import { compact, count, milliseconds } from '../../format/quantity';
import { Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment, State, type Tone } from '../../ui/text';
import { modelPath } from './catalog-data';
import { IdLink, ProviderLink } from './links';

type Health = Schemas['GetHealthResponse'];

/** A part, or why it is not known. */
function Part({
  title,
  note,
  part,
  children,
}: {
  title: string;
  note: string;
  part: { error: string } | null | undefined;
  children: ReactNode;
}) {
  return (
    <Section title={title} json={part} note={note}>
      {part !== null && part !== undefined && part.error !== '' ? (
        <Alert color="yellow" variant="light" role="alert">
          Not known: who knows it {part.error}.
        </Alert>
      ) : (
        children
      )}
    </Section>
  );
}

const breakerTones: Record<string, Tone> = { open: 'bad', half_open: 'warning', suspected: 'warning' };

const breakerColumns: Column<Schemas['Breaker']>[] = [
  { name: 'Provider', cell: (one) => <ProviderLink id={one.provider_id} /> },
  { name: 'Model', cell: (one) => <IdLink value={one.model_id} to={modelPath(one.model_id)} what="model" /> },
  {
    name: 'Breaker',
    cell: (one) => <State tone={breakerTones[one.state] ?? 'neutral'}>{one.state.replaceAll('_', ' ')}</State>,
  },
];

export function Breakers({ health }: { health: Health | undefined }) {
  const part = health?.breakers;
  return (
    <Part
      title="Circuit breakers"
      note={`Those of one router that are not closed. Open: no request goes there. ${count(part?.total ?? 0)} in all.`}
      part={part}
    >
      <DataTable
        caption="Circuit breakers that are not closed"
        columns={breakerColumns}
        rows={part?.list ?? []}
        id={(one) => `${one.provider_id} ${one.model_id}`}
        empty={part === undefined ? 'Asking …' : 'All are closed.'}
      />
    </Part>
  );
}

const hubColumns: Column<Schemas['HubState']>[] = [
  { name: 'Hub', cell: (one) => one.hub_id },
  { name: 'Sessions', numeric: true, cell: (one) => count(one.sessions) },
  { name: 'Heard', cell: (one) => <Moment at={one.heard_at} withAge /> },
];

export function Hubs({ health }: { health: Health | undefined }) {
  const part = health?.hubs;
  return (
    <Part title="Hubs" note="As one router hears them. A session is a machine or an external endpoint." part={part}>
      <DataTable
        caption="Hubs"
        columns={hubColumns}
        rows={part?.list ?? []}
        id={(one) => one.hub_id}
        empty={part === undefined ? 'Asking …' : 'The router hears no hub, so no request can be served.'}
      />
    </Part>
  );
}

/** A stream, or one of its consumers. */
interface Row {
  name: string;
  messages: string;
  pending: string;
  unacknowledged: string;
  stored: ReactNode;
  error: string;
}

const streamColumns: Column<Row>[] = [
  { name: 'Stream, consumer', cell: (row) => row.name },
  { name: 'Messages', numeric: true, cell: (row) => row.messages },
  { name: 'Not delivered yet', numeric: true, cell: (row) => row.pending },
  { name: 'Not acknowledged', numeric: true, cell: (row) => row.unacknowledged },
  { name: 'Newest', cell: (row) => row.stored },
  { name: 'Error', cell: (row) => (row.error === '' ? '–' : <State tone="bad">{row.error}</State>) },
];

function rowsOf(streams: Schemas['StreamState'][]): Row[] {
  return streams.flatMap((stream) => [
    {
      name: stream.stream,
      messages: `${count(stream.messages)} (${compact(Number(stream.bytes))}B)`,
      pending: '–',
      unacknowledged: '–',
      stored: stream.newest_at === null ? '–' : <Moment at={stream.newest_at} withAge />,
      error: stream.error,
    },
    ...stream.consumers.map((one) => ({
      name: `${stream.stream} → ${one.consumer}`,
      messages: '–',
      pending: count(one.pending),
      unacknowledged: count(one.unacknowledged),
      stored: '–',
      error: one.error,
    })),
  ]);
}

export function Streams({ health }: { health: Health | undefined }) {
  const part = health?.streams;
  return (
    <Part
      title="Streams"
      note="What NATS keeps until services have taken it. What is not delivered yet is how far a consumer lags."
      part={part}
    >
      <DataTable
        caption="Streams with their consumers"
        columns={streamColumns}
        rows={rowsOf(part?.list ?? [])}
        id={(row) => row.name}
        empty={part === undefined ? 'Asking …' : 'There are no streams.'}
      />
    </Part>
  );
}

/** What a service came to, in words. */
export function serviceWords(one: Schemas['ServiceHealth']): string {
  if (one.error !== '') return one.error;
  const time = milliseconds(one.latency_ms);
  return one.has_database ? `answered from its database in ${time}` : `answered in ${time}`;
}
