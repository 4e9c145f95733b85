// The receipt of a request as an operator reads it: how it was routed, attempt by attempt, and what it cost.

import { Text } from '@mantine/core';

import type { Schemas } from '../../api/client';
import { count, milliseconds } from '../../format/quantity';
import { Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment, Money, State } from '../../ui/text';
import { IdLink, ProviderLink } from './links';
import { modelPath, unitWords } from './catalog-data';
import { reasonWords } from './routing-words';

type Receipt = Schemas['Receipt'];
type Attempt = Schemas['ReceiptAttempt'];

export function RequestReceipt({ receipt }: { receipt: Receipt }) {
  return (
    <>
      <Routing receipt={receipt} />
      <Section
        title="Attempts"
        json={receipt.attempts}
        note="At most three, each at another provider, until content came. Latency is of the whole attempt."
      >
        <DataTable
          caption="Attempts of the request"
          columns={columns}
          rows={receipt.attempts}
          id={(one) => String(one.attempt)}
          empty="No provider was tried: the request was refused before, or is still on its way."
        />
      </Section>
      <PassedOver attempts={receipt.attempts} />
      <Outcome receipt={receipt} />
      <Cost receipt={receipt} />
    </>
  );
}

interface Passed {
  attempt: number;
  reason: string;
  count: number;
}

const passedColumns: Column<Passed>[] = [
  { name: 'Before attempt', numeric: true, cell: (one) => one.attempt },
  { name: 'Reason', cell: (one) => one.reason.replaceAll('_', ' ') },
  { name: 'Times', numeric: true, cell: (one) => count(one.count) },
  { name: 'What it means', cell: (one) => reasonWords(one.reason) },
];

/** Why the others did not get the request. */
function PassedOver({ attempts }: { attempts: Attempt[] }) {
  const rows = attempts.flatMap((one) =>
    (one.passed_over ?? []).map((passed) => ({ ...passed, attempt: one.attempt })),
  );
  return (
    <Section
      title="Passed over"
      json={rows}
      note="How often the router looked at an offer before an attempt and did not put it first. A model with very many offers is sampled."
    >
      <DataTable
        caption="Offers that were passed over"
        columns={passedColumns}
        rows={rows}
        id={(one) => `${one.attempt} ${one.reason}`}
        empty={
          attempts.length === 0
            ? 'The router named no provider, or the report has not come yet. What it passed over then is not kept.'
            : 'Nothing is recorded: each offer that the router looked at could have served, or the request is of before the record.'
        }
      />
    </Section>
  );
}

function Routing({ receipt }: { receipt: Receipt }) {
  return (
    <Section title="Routing" json={receipt}>
      <Text mb="sm">{routeWords(receipt)}</Text>
      <Facts
        facts={[
          ['Model', <IdLink key="model" value={receipt.model} to={modelPath(receipt.model)} what="model" />],
          ['Route', receipt.route_mode || '–'],
          [
            'Requested provider',
            receipt.requested_provider === '' ? 'none' : <ProviderLink key="pin" id={receipt.requested_provider} />,
          ],
          ['Fell back because', receipt.fallback_reason.replaceAll('_', ' ') || 'it did not fall back'],
          ['Served by', receipt.provider_id === '' ? 'nobody' : <Server key="server" receipt={receipt} />],
          ['Connection', receipt.connection_mode || '–'],
          ['Went on as', <Id key="next" value={receipt.continued_as} what="request id" />],
        ]}
      />
    </Section>
  );
}

function Server({ receipt }: { receipt: Receipt }) {
  return (
    <>
      {receipt.provider_name} <ProviderLink id={receipt.provider_id} />
    </>
  );
}

function routeWords(receipt: Receipt): string {
  if (receipt.fallback_reason === 'requested_provider_unavailable') {
    return 'The consumer named a provider that could not take the request. Others were chosen by weight.';
  }
  if (receipt.fallback_reason === 'requested_provider_failed')
    return 'The consumer named a provider, and it failed before content came. Others were chosen by weight.';
  if (receipt.route_mode === 'explicit') return 'The consumer named the provider, so weights did not count.';
  if (receipt.provider_id === '') return 'No provider served the request.';
  return 'The provider was chosen among those that were eligible, by trust, success, uptime, free capacity and time to first token.';
}

const results: Record<string, string> = {
  served: 'served',
  failed: 'failed',
  timeout: 'too late',
  busy: 'had no room',
  refused: 'refused the content',
  client_gone: 'the client left',
  unavailable: 'not reachable',
};

const columns: Column<Attempt>[] = [
  { name: 'Attempt', numeric: true, cell: (one) => one.attempt },
  { name: 'Provider', cell: (one) => <AttemptProvider attempt={one} /> },
  {
    name: 'Result',
    cell: (one) => <State tone={one.result === 'served' ? 'good' : 'bad'}>{results[one.result] ?? one.result}</State>,
  },
  { name: 'Engine status', numeric: true, cell: (one) => (one.engine_status === 0 ? '–' : one.engine_status) },
  { name: 'Latency', numeric: true, cell: (one) => milliseconds(one.latency_ms) },
];

function AttemptProvider({ attempt }: { attempt: Attempt }) {
  return (
    <span className="breakable">
      {attempt.provider_name} <ProviderLink id={attempt.provider_id} />
    </span>
  );
}

function Outcome({ receipt }: { receipt: Receipt }) {
  return (
    <Section title="Outcome">
      <Facts
        facts={[
          [
            'Status',
            <State
              key="status"
              tone={receipt.status === 'settled' ? 'good' : receipt.status === 'open' ? 'busy' : 'neutral'}
            >
              {receipt.status}
            </State>,
          ],
          ['Answered', receipt.http_status === 0 ? '–' : `${receipt.http_status} ${receipt.error_code}`],
          ['Ended', receipt.ending.replaceAll('_', ' ') || 'nothing was served'],
          ['Streamed', receipt.stream ? 'yes' : 'no'],
          ['Time to first token', receipt.first_content_ms === 0 ? '–' : milliseconds(receipt.first_content_ms)],
          ['Whole answer', receipt.total_ms === 0 ? '–' : milliseconds(receipt.total_ms)],
          ['Admitted', <Moment key="admitted" at={receipt.admitted_at} />],
          ['Settled', <Moment key="settled" at={receipt.settled_at} />],
        ]}
      />
    </Section>
  );
}

function Cost({ receipt }: { receipt: Receipt }) {
  const unit = unitWords(receipt.pricing_unit);
  const others: [string, string][] = [];
  if (receipt.images > 0) others.push(['Images billed', count(receipt.images)]);
  if (receipt.audio_seconds > 0) others.push(['Seconds of audio billed', count(receipt.audio_seconds)]);
  return (
    <Section title="Cost" note="Claimed is what the engine said. Recounted is what the hub counted in the answer.">
      <Facts
        facts={[
          ['Cost', <Money key="cost" usd={receipt.cost_usd_str} />],
          ['Discount', <Money key="discount" usd={receipt.discount_usd_str} />],
          ['Billing', receipt.billing_type],
          [`Input price ${unit}`, <Money key="in" usd={receipt.input_price_str} />],
          [`Output price ${unit}`, <Money key="out" usd={receipt.output_price_str} />],
          ['Prompt tokens billed', `${count(receipt.prompt_tokens)} (claimed ${count(receipt.claimed_prompt_tokens)})`],
          ['Answer tokens billed', count(receipt.completion_tokens)],
          [
            'Answer tokens claimed, recounted',
            `${count(receipt.claimed_completion_tokens)}, ${count(receipt.recounted_completion_tokens)}`,
          ],
          ...others,
          ['Price version', <Id key="version" value={receipt.price_version_id} what="price version id" />],
        ]}
      />
    </Section>
  );
}
