import { Alert, Button, SimpleGrid, Text } from '@mantine/core';
import { Link, useParams } from 'react-router';

import { compact, count, milliseconds, percent } from '../../format/quantity';
import { CodeTabs } from '../../ui/code';
import { JsonView } from '../../ui/json';
import { Anchor, Empty, Figure, Loaded, Page, Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { modelPath, useCatalog, type Model } from './catalog';
import { isCallable, isChat } from './catalog-view';
import { Offerings } from './offerings';
import { keyVariable, samples } from './samples';
import { useModelStats } from './stats';
import { ofMany, told, tooFew } from './told';
import { Price, categories, contextBases, kinds, planCoverages, tiers, unitOf, wordFor } from './words';
import { WeightsSection } from './weights';

/** One model: whether it can be called, what it costs, who serves it, and how to call it. */
export default function ModelPage() {
  const id = useParams()['*'] ?? '';
  const catalog = useCatalog();
  const model = catalog.data?.find((one) => one.id === id || one.slug === id);
  if (model !== undefined) return <Details model={model} />;
  return (
    <Page title={id}>
      <Loaded query={catalog}>
        {() => (
          <Section title="Unknown model">
            <Empty
              action={
                <Button component={Link} to="/" variant="default">
                  All models
                </Button>
              }
            >
              The catalog has no model of this id. Ids are written with capitals and slashes as the catalog has them.
            </Empty>
          </Section>
        )}
      </Loaded>
    </Page>
  );
}

function Details({ model }: { model: Model }) {
  const callable = isCallable(model);
  return (
    <Page
      title={model.name || model.id}
      lead={<Id value={model.id} what="model id" full />}
      actions={
        <>
          {callable && isChat(model) && (
            <Button component={Link} to={`/playground?model=${encodeURIComponent(model.id)}`}>
              Try it
            </Button>
          )}
          <JsonView value={model} title={model.id} />
        </>
      }
    >
      <Leaving model={model} />
      <Coming model={model} />
      <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }}>
        <Figure label="Now" note={callable ? providersOnline(model.online_providers) : notCallable(model)}>
          {callable ? 'Callable' : 'Not callable'}
        </Figure>
        <Figure label="Input price" note={`US dollars for each ${unitOf(model)}`}>
          <Price model={model} side="input" usd={model.input_price_str} />
        </Figure>
        <Figure label="Output price" note={`US dollars for each ${unitOf(model)}`}>
          <Price model={model} side="output" usd={model.output_price_str} />
        </Figure>
        <Figure
          label="Guaranteed context, tokens"
          note={`Basis: ${wordFor(contextBases, model.guaranteed_context_basis)}.`}
        >
          {tokens(model.guaranteed_context_length)}
        </Figure>
      </SimpleGrid>
      <LastDay model={model} />
      <Offerings model={model} />
      <Calling model={model} />
      <About model={model} />
      {model.kind === 'open' && <Serving model={model} />}
      {model.kind === 'open' && <WeightsSection model={model} />}
    </Page>
  );
}

/** What requests for the model were like of late. */
function LastDay({ model }: { model: Model }) {
  const stats = useModelStats().data?.get(model.id);
  if (stats === undefined) return null;
  if (stats.requests_24h === null) {
    return (
      <Text size="sm" c="var(--muted)">
        Requests in 24 hours, success and speed: {tooFew}. Shown once requests of at least 5 paying consumers have been
        served.
      </Text>
    );
  }
  return (
    <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }}>
      <Figure
        label="Requests in 24 hours"
        note={`${told(stats.tokens_24h, compact)} tokens (rounded to two significant digits)`}
      >
        {ofMany(stats.requests_24h, count)}
      </Figure>
      <Figure label="Success in 24 hours" note="of the requests that were not left or refused">
        {told(stats.success_rate_24h, (share) => percent(share, 2))}
      </Figure>
      <Figure label="Time to first token" note={`95% within ${told(stats.ttft_ms_p95, milliseconds)}`}>
        {told(stats.ttft_ms_p50, milliseconds)}
      </Figure>
      <Figure label="Tokens a second" note="of the median streamed answer">
        {told(stats.tokens_per_second_p50, (value) => value.toFixed(1))}
      </Figure>
    </SimpleGrid>
  );
}

function providersOnline(n: number): string {
  return n === 1 ? '1 provider online' : `${count(n)} providers online`;
}

function notCallable(model: Model): string {
  return model.active ? 'No provider is online for it. A call answers 503 until one is.' : 'It is not in service.';
}

function Leaving({ model }: { model: Model }) {
  if (model.deprecated_at === null) return null;
  return (
    <Alert color="yellow" variant="light" title="This model leaves the catalog">
      <Text size="sm" component="div">
        It can be called until <Moment at={model.deprecated_at} withAge />.
        {model.successor !== '' && (
          <>
            {' '}
            Use{' '}
            <Anchor component={Link} to={modelPath(model.successor)} inherit underline="always">
              {model.successor}
            </Anchor>{' '}
            in its place.
          </>
        )}
      </Text>
    </Alert>
  );
}

/** The prices that are scheduled. They may still be withdrawn. */
function Coming({ model }: { model: Model }) {
  const coming = model.price_change;
  if (coming == null) return null; // a gateway of an earlier release does not send it
  const then = { ...model, pricing_unit: coming.pricing_unit };
  return (
    <Alert color="blue" variant="light" title="The prices of this model change">
      <Text size="sm" component="div">
        From <Moment at={coming.effective_from} withAge />: input{' '}
        <Price model={then} side="input" usd={coming.input_price_str} />, output{' '}
        <Price model={then} side="output" usd={coming.output_price_str} />, in US dollars for each {unitOf(then)}. A
        request is charged the prices that are in force when it is admitted. The change may still be withdrawn.
      </Text>
    </Alert>
  );
}

function Calling({ model }: { model: Model }) {
  const wish = { base: window.location.origin, model: model.id, category: model.category, stream: false };
  return (
    <Section
      title="Call it"
      note={
        <>
          The code reads your consumer key from the variable {keyVariable} of the environment. The{' '}
          <Anchor component={Link} to="/quick-start" inherit underline="always">
            quick start
          </Anchor>{' '}
          says where a key comes from.
        </>
      }
    >
      <CodeTabs label="Code to call the model" codes={samples(wish)} />
    </Section>
  );
}

function About({ model }: { model: Model }) {
  return (
    <Section title="What it is">
      <Facts
        facts={[
          ['Type', wordFor(categories, model.category)],
          ['Kind', wordFor(kinds, model.kind)],
          ['Tier', wordFor(tiers, model.tier)],
          ['Token Plan', wordFor(planCoverages, model.plan_coverage)],
          ['Context of the catalog, tokens', count(model.context_length)],
          ['Largest context that a provider has, tokens', tokens(model.max_reported_context_length)],
          ['Longest answer, tokens', count(model.max_output_tokens)],
          ['Quantizations online', list(model.quantizations)],
          ['Capabilities', list(model.capabilities)],
          ['Parameters that it takes', list(model.supported_parameters)],
          ['Alias', model.slug === '' ? '–' : <Id key="slug" value={model.slug} what="alias" full />],
          ['In the catalog since', <Moment key="since" at={model.created_at} />],
          [
            'In service',
            <State key="service" tone={model.active ? 'good' : 'warning'}>
              {model.active ? 'yes' : 'no'}
            </State>,
          ],
        ]}
      />
    </Section>
  );
}

/** What a GPU owner who wants to serve the model looks for. */
function Serving({ model }: { model: Model }) {
  const unit = unitOf(model);
  return (
    <Section title="Serve it" note="What a provider is paid for each answer. The payout never exceeds the price.">
      <Facts
        facts={[
          [
            `Payout for input, for each ${unit}`,
            <Price key="in" model={model} side="input" usd={model.payout_input_price_str} />,
          ],
          [
            `Payout for output, for each ${unit}`,
            <Price key="out" model={model} side="output" usd={model.payout_output_price_str} />,
          ],
          ['VRAM that it needs', model.min_vram_gb === 0 ? 'not known' : `${model.min_vram_gb} GB`],
          [
            'How much it is asked for',
            <Anchor key="demand" component={Link} to={`/demand?category=${encodeURIComponent(model.category)}`}>
              Demand of this type
            </Anchor>,
          ],
        ]}
      />
    </Section>
  );
}

function tokens(value: number | null): string {
  return value === null ? '–' : count(value);
}

function list(values: string[]): string {
  return values.length === 0 ? '–' : values.join(', ');
}
