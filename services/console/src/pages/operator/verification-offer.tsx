// One offer at length: what speaks against it, what trust is made of, its observations, and what an operator may do.

import { Anchor, Group, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { ApiError } from '../../api/error';
import { count, percent } from '../../format/quantity';
import { Loaded, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { Act } from './act';
import { needs } from './allowed';
import { hex } from './binary';
import { ProviderLink } from './links';
import { useCursorList, useDone } from './lists';
import { RunBenchmark } from './provider-acts';
import { useSteadyKey } from './steady-key';
import { evidence, families, heldReasons, levelMeanings, levelTone } from './verification-words';
import { Lane } from './verification-lane';

interface OfferProps {
  providerId: string;
  modelId: string;
}

export function OfferDetail({ providerId, modelId }: OfferProps) {
  const path = { provider_id: providerId, model_id: modelId };
  const query = useQuery({
    queryKey: ['admin', 'verification', 'offering', providerId, modelId],
    queryFn: () =>
      answer(api.GET('/api/v1/admin/verification/offerings/{provider_id}/{model_id}', { params: { path } })),
  });
  return (
    <Loaded query={query}>
      {(offer) => (
        <>
          <Standing offer={offer} />
          <Evidence offer={offer} />
          <Section title="What you may do">
            <Group>
              <RunBenchmark providerId={providerId} modelId={modelId} />
              <VoidObservations providerId={providerId} modelId={modelId} />
            </Group>
          </Section>
          <Observations providerId={providerId} modelId={modelId} />
        </>
      )}
    </Loaded>
  );
}

function Standing({ offer }: { offer: Schemas['GetOfferingResponse'] }) {
  const { offering } = offer;
  if (offering === null) return null;
  const window = offer.unmeasured
    ? 'could not be measured'
    : offer.measured_tokens === 0
      ? 'not measured'
      : `${count(offer.measured_tokens)} tokens`;
  return (
    <Section title="Standing" json={offer}>
      <Text size="sm" mb="sm" component="div">
        <State tone={levelTone(offering.level)}>{offering.level}</State> {levelMeanings[offering.level]}
        {offer.held !== '' && ` The next step waits: ${heldReasons[offer.held] ?? offer.held}.`}
      </Text>
      <Facts
        facts={[
          ['Provider', <ProviderLink key="provider" id={offering.provider_id} />],
          ['At this level since', <Moment key="since" at={offering.level_since} withAge />],
          ['Lane', <Lane key="lane" offering={offering} />],
          ['Lane by evidence', offer.misrepresentation_lane],
          ['Lane by benchmarks', offer.benchmark_lane],
          ['Benchmark', offering.benchmark],
          ['Benchmark passed', <Moment key="passed" at={offering.benchmark_passed_at} />],
          ['States quantization', offer.quantization || 'none'],
          ['Engine', offer.engine || 'not known'],
          ['GPU class', offer.gpu_class || 'not known'],
          ['Measured window', offer.measuring ? `${window}, being measured` : window],
          ['Place among its models', offer.rank],
          ['First seen', <Moment key="first" at={offer.first_seen} />],
          ['Last seen', <Moment key="seen" at={offer.seen_at} withAge />],
        ]}
      />
      {offer.open_verdict_ids.length > 0 && (
        <Stack gap={4} mt="sm">
          {offer.open_verdict_ids.map((id) => (
            <Anchor
              key={id}
              component={Link}
              size="sm"
              to={`/verification?tab=verdicts&provider=${offering.provider_id}&verdict=${id}`}
            >
              Open verdict {id}
            </Anchor>
          ))}
        </Stack>
      )}
    </Section>
  );
}

function Evidence({ offer }: { offer: Schemas['GetOfferingResponse'] }) {
  const { factors, offering } = offer;
  return (
    <Section
      title="Evidence and trust"
      note="Evidence of a family begins at 0 and falls with each passed probe. Trust is the product of its four factors."
    >
      <DataTable
        caption="Evidence by family"
        columns={[
          { name: 'Family', cell: (one) => families[one.family] ?? one.family },
          { name: 'Evidence', numeric: true, cell: (one) => evidence(one.evidence) },
        ]}
        rows={offer.families}
        id={(one) => one.family}
        empty="No probe has been judged yet."
      />
      <Facts
        facts={[
          ['Weighted sum', evidence(offering?.evidence ?? 0)],
          ['Failed attempts beside served probes', evidence(offer.pairs)],
          ['Observations in a year', `${count(offer.observations)} of 20,000`],
          ['Led to the notice', offer.led === '' ? '–' : (families[offer.led] ?? offer.led)],
          ['UTC hours with an exceedance', offer.exceeding_hours],
          [
            'Confirmation',
            offer.confirmation_spent === 0
              ? '–'
              : `${offer.confirmation_spent} of 400, evidence ${evidence(offer.confirmation_evidence)}`,
          ],
          ['Trust', offering?.trust.toFixed(2) ?? '–'],
          ['Factor of trust: verified', share(factors?.verified)],
          ['Factor of trust: integrity', share(factors?.integrity)],
          ['Factor of trust: context', share(factors?.context)],
          ['Factor of trust: fairness', share(factors?.fairness)],
        ]}
      />
    </Section>
  );
}

function share(factor: number | undefined): string {
  return factor === undefined ? '–' : percent(factor);
}

function VoidObservations({ providerId, modelId }: OfferProps) {
  const done = useDone();
  const key = useSteadyKey();
  const [since, setSince] = useState('');
  return (
    <Act
      label="Void observations"
      title="Make observations count for nothing?"
      permission={needs['POST /api/v1/admin/verification/void']}
      destructive
      facts={[
        ['Provider', providerId],
        ['Model', modelId],
        ['Second person', 'none is needed'],
      ]}
      params={['since']}
      fields={(form) => (
        <TextInput
          type="datetime-local"
          label="Since (UTC)"
          description="At most 90 days back."
          value={since}
          onChange={(event) => setSince(event.currentTarget.value)}
          error={form.of('since')}
        />
      )}
      run={() => {
        const at = Date.parse(`${since}Z`);
        if (Number.isNaN(at))
          throw new ApiError('Say since when.', { status: 400, code: 'missing_required_parameter', param: 'since' });
        const iso = new Date(at).toISOString();
        const body = {
          provider_id: providerId,
          model_id: modelId,
          since: iso,
          idempotency_key: key.of(`${providerId} ${modelId} ${iso}`),
        };
        return answer(api.POST('/api/v1/admin/verification/void', { body }));
      }}
      done={() => {
        key.clear();
        done('The observations are void.');
      }}
    >
      What was observed since then counts for nothing. Evidence, recovery and a running confirmation start anew. It
      cannot be undone. Verdicts that were given stand: reverse a penalty on the page of penalties.
    </Act>
  );
}

const columns: Column<Schemas['Observation']>[] = [
  { name: 'When', cell: (one) => <Moment at={one.at} /> },
  { name: 'Family', cell: (one) => families[one.family] ?? one.family },
  { name: 'Probe', cell: (one) => `${one.kind.replaceAll('_', ' ')}, ${one.flow}` },
  {
    name: 'Said',
    cell: (one) => <State tone={one.exceeds ? 'warning' : 'good'}>{one.exceeds ? 'exceeds' : 'within'}</State>,
  },
  { name: 'Probe id', cell: (one) => <Id value={one.probe_id} what="probe id" /> },
  { name: 'Calibration', cell: (one) => <Id value={hex(one.calibration)} what="calibration hash" /> },
];

function Observations({ providerId, modelId }: OfferProps) {
  const list = useCursorList(['admin', 'verification', 'observations', providerId, modelId], (cursor) =>
    answer(
      api.GET('/api/v1/admin/verification/observations', {
        params: { query: { provider_id: providerId, model_id: modelId, cursor, page_size: 50 } },
      }),
    ),
  );
  const rows = list.pages.flatMap((page) => page.list);
  return (
    <Section
      title="Observations"
      json={rows}
      note="The newest first. One probe may say something for several families. No single observation punishes."
    >
      <Loaded query={list.query}>
        {() => (
          <DataTable
            caption="Observations of the offer"
            columns={columns}
            rows={rows}
            id={(one) => `${one.probe_id} ${one.family}`}
            empty="No probe has been judged yet."
            more={list.more}
            loadingMore={list.loadingMore}
          />
        )}
      </Loaded>
    </Section>
  );
}
