// The status machine drawn. Lines have numbers, because words would not fit on a narrow screen; the table below
// has the same changes in words.

import { Box, SimpleGrid, Text } from '@mantine/core';
import { useId } from 'react';

import { Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { State } from '../../ui/text';
import { boxHeight, boxWidth, changes, labelOf, leads, places, type Change } from './machine';
import { statusTones } from './words';

const ink = 'var(--mantine-color-text)';
const quiet = 'var(--muted)';
const strong = 'var(--mantine-color-anchor)';

export function Machine({ status, label }: { status: string; label: string }) {
  const here = places.find((place) => place.name === status);
  return (
    <Section
      title="Your status among all"
      note={<>The thick box is where you stand. Lines from it are drawn thick. Their numbers are those of the table.</>}
    >
      <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="lg">
        <Box maw={460}>
          <Drawing status={status} label={label} />
          {here !== undefined && (
            <Text size="sm" mt="xs">
              <strong>{label}.</strong> {here.meaning}
            </Text>
          )}
        </Box>
        <DataTable
          caption="What changes a status"
          columns={columns(status)}
          rows={[
            ...changes.filter((change) => leads(change, status)),
            ...changes.filter((change) => !leads(change, status)),
          ]}
          id={(change) => String(change.n)}
          empty=""
        />
      </SimpleGrid>
    </Section>
  );
}

function columns(status: string): Column<Change>[] {
  return [
    { name: 'Number', cell: (change) => change.n, numeric: true },
    {
      name: 'From and to',
      cell: (change) => (
        <>
          {change.from.map(labelOf).join(', ')} → {labelOf(change.to)}{' '}
          {leads(change, status) && <State tone={statusTones[status] ?? 'neutral'}>from here</State>}
        </>
      ),
    },
    { name: 'When', cell: (change) => change.what },
  ];
}

function Drawing({ status, label }: { status: string; label: string }) {
  const id = useId();
  return (
    <svg viewBox="0 0 380 470" width="100%" role="img" aria-labelledby={`${id}title ${id}text`}>
      <title id={`${id}title`}>The statuses of a provider, and what leads from one to another</title>
      <desc id={`${id}text`}>
        You are in the status {label}. The table beside the drawing has every change in words.
      </desc>
      <defs>
        <Arrow id={`${id}quiet`} color={quiet} />
        <Arrow id={`${id}strong`} color={strong} />
      </defs>
      {[...changes]
        .sort((a, b) => strength(a, status) - strength(b, status))
        .map((change) => (
          <Line
            key={change.n}
            change={change}
            strong={leads(change, status)}
            marker={`${id}${leads(change, status) ? 'strong' : 'quiet'}`}
          />
        ))}
      <text x="186" y="405" fontSize="11" textAnchor="middle" style={{ fill: ink }}>
        every
      </text>
      <text x="186" y="418" fontSize="11" textAnchor="middle" style={{ fill: ink }}>
        status
      </text>
      {places.map((place) => (
        <Node
          key={place.name}
          x={place.x}
          y={place.y}
          label={place.label}
          here={place.name === status}
          probation={place.name === status && /probation/i.test(label)}
        />
      ))}
      {changes.map((change) => (
        <Number key={change.n} change={change} strong={leads(change, status)} />
      ))}
    </svg>
  );
}

/** Lines from where the provider stands are drawn last, above the others. */
function strength(change: Change, status: string): number {
  return leads(change, status) ? 1 : 0;
}

function Arrow({ id, color }: { id: string; color: string }) {
  return (
    <marker
      id={id}
      viewBox="0 0 8 8"
      refX="7"
      refY="4"
      markerWidth="7"
      markerHeight="7"
      markerUnits="userSpaceOnUse"
      orient="auto"
    >
      <path d="M0 0 L8 4 L0 8 z" style={{ fill: color }} />
    </marker>
  );
}

function Line({ change, strong: leading, marker }: { change: Change; strong: boolean; marker: string }) {
  return (
    <path
      d={change.path}
      fill="none"
      strokeWidth={leading ? 2.5 : 1.2}
      strokeDasharray={change.dashed === true ? '4 3' : undefined}
      markerEnd={`url(#${marker})`}
      style={{ stroke: leading ? strong : quiet }}
    />
  );
}

function Number({ change, strong: leading }: { change: Change; strong: boolean }) {
  const [x, y] = change.at;
  return (
    <>
      <circle
        cx={x}
        cy={y}
        r="9"
        strokeWidth={leading ? 2 : 1}
        style={{ fill: 'var(--mantine-color-body)', stroke: leading ? strong : quiet }}
      />
      <text x={x} y={y + 4} fontSize="11" fontWeight={leading ? 700 : 400} textAnchor="middle" style={{ fill: ink }}>
        {change.n}
      </text>
    </>
  );
}

function Node({
  x,
  y,
  label,
  here,
  probation,
}: {
  x: number;
  y: number;
  label: string;
  here: boolean;
  probation: boolean;
}) {
  return (
    <>
      <rect
        x={x}
        y={y}
        width={boxWidth}
        height={boxHeight}
        rx="8"
        strokeWidth={here ? 3.5 : 1}
        style={{
          fill: here ? 'var(--mantine-primary-color-light)' : 'var(--mantine-color-body)',
          stroke: here ? strong : quiet,
        }}
      />
      <text
        x={x + boxWidth / 2}
        y={y + (here ? 18 : 25)}
        fontSize="14"
        fontWeight={here ? 700 : 500}
        textAnchor="middle"
        style={{ fill: ink }}
      >
        {label}
      </text>
      {here && (
        <text x={x + boxWidth / 2} y={y + 33} fontSize="11" textAnchor="middle" style={{ fill: ink }}>
          {probation ? 'you, in probation' : 'you are here'}
        </text>
      )}
    </>
  );
}
