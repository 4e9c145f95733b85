import { Anchor, Stack, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link, useParams } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { isZero } from '../../format/money';
import { count, milliseconds } from '../../format/quantity';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, Facts } from '../../ui/table';
import { Id, Moment, Money, State, type Tone } from '../../ui/text';
import { costLines, type CostLine } from './cost';
import { Figures } from './figures';
import { scope } from './queries';
import { attemptResult, billingWord, endingText, fallbackText } from './words';

type Receipt = Schemas['Receipt'];

const pollMs = 2_000;

export default function ReceiptPage() {
  const { id = '' } = useParams();
  const receipt = useQuery({
    queryKey: [scope, 'receipt', id],
    queryFn: () => answer(api.GET('/api/v1/requests/{id}', { params: { path: { id } } })),
    refetchInterval: ({ state }) => (state.data?.status === 'open' ? pollMs : false),
  });
  return (
    <Page title="Receipt" lead={<Id value={id} what="request id" full />}>
      <Loaded query={receipt}>
        {(data) => (
          <Stack gap="lg">
            <Outcome receipt={data} />
            <Cost receipt={data} />
            <Route receipt={data} />
            <Attempts attempts={data.attempts} />
            <Times receipt={data} />
          </Stack>
        )}
      </Loaded>
    </Page>
  );
}

const states: Record<string, { word: string; tone: Tone; text: string }> = {
  open: { word: 'Running', tone: 'busy', text: 'The request runs, or its usage has not arrived yet.' },
  settled: { word: 'Settled', tone: 'good', text: 'The cost is final.' },
  released: { word: 'Released', tone: 'neutral', text: 'Nothing was served, so nothing is charged.' },
  expired: { word: 'Expired', tone: 'warning', text: 'No usage arrived, so nothing is charged.' },
};

function Outcome({ receipt }: { receipt: Receipt }) {
  const state = states[receipt.status] ?? { word: receipt.status, tone: 'neutral' as const, text: '' };
  return (
    <div aria-live="polite">
      <Figures>
        <Figure label="Cost" note={billingWord(receipt.billing_type)}>
          {receipt.status === 'open' ? '–' : <Money usd={receipt.cost_usd_str} />}
        </Figure>
        <Figure label="State" note={state.text}>
          <State tone={state.tone}>{state.word}</State>
        </Figure>
        <Figure label="First content" note="From the request to the first content of the answer.">
          {receipt.first_content_ms > 0 ? milliseconds(receipt.first_content_ms) : '–'}
        </Figure>
        <Figure label="Whole answer" note="From the request to its end.">
          {receipt.total_ms > 0 ? milliseconds(receipt.total_ms) : '–'}
        </Figure>
      </Figures>
    </div>
  );
}

function Cost({ receipt }: { receipt: Receipt }) {
  const lines = receipt.status === 'settled' ? costLines(receipt) : null;
  return (
    <Section title="How the cost comes about" note="Prices are those at the moment when the request was admitted.">
      {lines === null ? (
        <Text size="sm">{states[receipt.status]?.text ?? 'The cost cannot be broken down.'}</Text>
      ) : (
        <CostTable lines={lines} cost={receipt.cost_usd_str} />
      )}
      <Counted receipt={receipt} />
    </Section>
  );
}

function CostTable({ lines, cost }: { lines: CostLine[]; cost: string }) {
  return (
    <Table verticalSpacing={6}>
      <caption className="visually-hidden">The cost as a sum</caption>
      <Table.Thead>
        <Table.Tr>
          <Table.Th scope="col">Part</Table.Th>
          <Table.Th scope="col" ta="right">
            US dollars
          </Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {lines.map((line) => (
          <Table.Tr key={line.text}>
            <Table.Td className="breakable">{line.text}</Table.Td>
            <Table.Td ta="right">
              <Money usd={line.usd} />
            </Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
      <Table.Tfoot>
        <Table.Tr>
          <Table.Th scope="row">= Cost</Table.Th>
          <Table.Td ta="right" fw={700}>
            <Money usd={cost} />
          </Table.Td>
        </Table.Tr>
      </Table.Tfoot>
    </Table>
  );
}

/** Whose count was taken, where there is more than one. */
function Counted({ receipt }: { receipt: Receipt }) {
  const claimed = receipt.claimed_prompt_tokens > 0 || receipt.claimed_completion_tokens > 0;
  if (!claimed || receipt.pricing_unit !== 'per_1m_tokens') return null;
  return (
    <Text size="sm" c="var(--muted)" mt="sm">
      The engine reported {count(receipt.claimed_prompt_tokens)} prompt and {count(receipt.claimed_completion_tokens)}{' '}
      completion tokens.
      {receipt.recounted_completion_tokens > 0
        ? ` The platform counted ${count(receipt.recounted_completion_tokens)} in the answer.`
        : ''}
    </Text>
  );
}

function Route({ receipt }: { receipt: Receipt }) {
  const facts: [string, ReactNode][] = [
    [
      'Model',
      <Anchor component={Link} to={`/models/${receipt.model}`} inherit className="breakable">
        {receipt.model}
      </Anchor>,
    ],
    ['Served by', <Provider name={receipt.provider_name} id={receipt.provider_id} />],
    ['Connection', receipt.connection_mode || '–'],
    ['Route mode', receipt.route_mode === 'explicit' ? 'explicit: the request named its provider' : receipt.route_mode],
  ];
  if (receipt.requested_provider !== '')
    facts.push(['Requested provider', <Id value={receipt.requested_provider} what="provider id" />]);
  if (receipt.fallback_reason !== '')
    facts.push(['Fallback', `${fallbackText(receipt.fallback_reason)} (${receipt.fallback_reason})`]);
  facts.push(['How it ended', endingText(receipt.ending)], ['Answer', receipt.stream ? 'Streamed' : 'Whole']);
  if (receipt.http_status > 0)
    facts.push(['Status', `${receipt.http_status}${receipt.error_code === '' ? '' : ` ${receipt.error_code}`}`]);
  if (!isZero(receipt.discount_usd_str)) facts.push(['Discount', <Money usd={receipt.discount_usd_str} />]);
  facts.push(['Price version', <Id value={receipt.price_version_id} what="price version" />]);
  if (receipt.continued_as !== '') {
    facts.push([
      'Went on as',
      <Anchor component={Link} to={`/requests/${receipt.continued_as}`} inherit>
        the request that went on
      </Anchor>,
    ]);
  }
  return (
    <Section title="Route" json={receipt}>
      <Facts facts={facts} />
    </Section>
  );
}

function Provider({ name, id }: { name: string; id: string }) {
  if (id === '') return <>Nobody</>;
  return (
    <span className="breakable">
      {name} <Id value={id} what="provider id" />
    </span>
  );
}

function Attempts({ attempts }: { attempts: Schemas['ReceiptAttempt'][] }) {
  return (
    <Section
      title="Attempts"
      note="Each provider that was asked. A further provider is asked only before the first content, and at most twice."
    >
      <DataTable
        caption="Attempts"
        columns={[
          { name: 'Attempt', cell: (attempt) => attempt.attempt },
          { name: 'Provider', cell: (attempt) => <Provider name={attempt.provider_name} id={attempt.provider_id} /> },
          {
            name: 'Result',
            cell: (attempt) => (
              <State tone={attemptResult(attempt.result).tone}>{attemptResult(attempt.result).text}</State>
            ),
          },
          {
            name: "Engine's status",
            numeric: true,
            cell: (attempt) => (attempt.engine_status === 0 ? '–' : attempt.engine_status),
          },
          { name: 'Took', numeric: true, cell: (attempt) => milliseconds(attempt.latency_ms) },
        ]}
        rows={attempts}
        id={(attempt) => String(attempt.attempt)}
        empty="No provider was asked."
      />
    </Section>
  );
}

function Times({ receipt }: { receipt: Receipt }) {
  return (
    <Section title="Times">
      <Facts
        facts={[
          ['Admitted', <Moment at={receipt.admitted_at} />],
          ['Settled', <Moment at={receipt.settled_at} />],
        ]}
      />
    </Section>
  );
}
