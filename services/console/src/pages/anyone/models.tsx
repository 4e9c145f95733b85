import { Button, Checkbox, Group, NativeSelect, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { Link } from 'react-router';

import { useSession } from '../../app/session';
import { compact, milliseconds, percent } from '../../format/quantity';
import { useFilters } from '../../ui/filters';
import { Anchor, Empty, Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, State } from '../../ui/text';
import { modelPath, useCatalog, useWeights, type Model, type Weights } from './catalog';
import { allModels, isCallable, sorts, valuesOf, viewed, type View } from './catalog-view';
import { bytes } from './figures';
import { useModelStats, type ModelStats } from './stats';
import { told } from './told';
import { GuaranteedContext, Price, categories, kinds, shortCoverages, tiers, wordFor } from './words';

/** The first page of the site: what can be called now, and what it costs. */
export default function Models() {
  const catalog = useCatalog();
  const session = useSession();
  return (
    <Page
      title="Models"
      lead={
        <>
          One OpenAI-compatible API for all models. You pay for what you use. Independent GPU providers serve the
          models, so a model can be called while at least one provider is online for it.
        </>
      }
      actions={
        <>
          {session.kind === 'out' && (
            <Button component={Link} to="/sign-up">
              Sign up
            </Button>
          )}
          <Button component={Link} to="/quick-start" variant="default">
            Quick start
          </Button>
        </>
      }
    >
      <Loaded query={catalog}>{(models) => <Catalog models={models} />}</Loaded>
    </Page>
  );
}

function Catalog({ models }: { models: Model[] }) {
  const [view, setView] = useFilters(allModels);
  if (models.length === 0) {
    return (
      <Section title="Catalog">
        <Empty
          action={
            <Button component={Link} to="/status" variant="default">
              Service status
            </Button>
          }
        >
          The catalog has no models yet. They appear here as soon as an operator adds them.
        </Empty>
      </Section>
    );
  }
  const callable = models.filter(isCallable).length;
  const shown = viewed(models, view);
  return (
    <>
      <SimpleGrid cols={{ base: 1, xs: 3 }}>
        <Figure label="Callable now" note={`of ${models.length} models`}>
          {callable}
        </Figure>
        <Figure label="Open weights" note="served by GPU providers">
          {models.filter((model) => model.kind === 'open').length}
        </Figure>
        <Figure label="Frontier gateway" note="served by their vendors">
          {models.filter((model) => model.kind === 'gateway').length}
        </Figure>
      </SimpleGrid>
      <Section
        title="Catalog"
        json={shown}
        note={
          <>
            Prices are US dollars for 1M tokens unless a price names another unit. The guaranteed context is the
            smallest window of the providers online, in tokens.
          </>
        }
      >
        <Stack>
          <Filters models={models} view={view} setView={setView} />
          <Results shown={shown} view={view} setView={setView} />
        </Stack>
      </Section>
    </>
  );
}

interface FilterProps {
  view: View;
  setView: (change: Partial<View>) => void;
}

function Filters({ models, view, setView }: FilterProps & { models: Model[] }) {
  const choice = (
    label: string,
    name: 'category' | 'kind' | 'tier' | 'quantization',
    words: Record<string, string>,
  ) => (
    <NativeSelect
      label={label}
      value={view[name]}
      onChange={(event) => setView({ [name]: event.currentTarget.value })}
      data={[
        { value: 'all', label: 'All' },
        ...valuesOf(models, (model) => (name === 'quantization' ? model.quantizations : [model[name]])).map(
          (value) => ({
            value,
            label: wordFor(words, value),
          }),
        ),
      ]}
    />
  );
  return (
    <>
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }} spacing="sm">
        <TextInput
          label="Search"
          type="search"
          placeholder="Name or id"
          maxLength={200}
          value={view.search}
          onChange={(event) => setView({ search: event.currentTarget.value })}
        />
        {choice('Type', 'category', categories)}
        {choice('Kind', 'kind', kinds)}
        {choice('Tier', 'tier', tiers)}
        {choice('Quantization', 'quantization', {})}
        <NativeSelect
          label="Order"
          value={view.sort}
          onChange={(event) => setView({ sort: event.currentTarget.value })}
          data={sorts}
        />
      </SimpleGrid>
      <Checkbox
        label="Only models that can be called now"
        checked={view.callable === 'yes'}
        onChange={(event) => setView({ callable: event.currentTarget.checked ? 'yes' : 'all' })}
      />
    </>
  );
}

const step = 50;

function Results({ shown, view, setView }: FilterProps & { shown: Model[] }) {
  const [rows, setRows] = useState(step);
  const weights = useWeights().data;
  const stats = useModelStats().data;
  if (shown.length === 0) {
    return (
      <Empty
        action={
          <Button variant="default" onClick={() => setView(allModels)}>
            Show all models
          </Button>
        }
      >
        {view.callable === 'yes'
          ? 'No model that can be called now fits these filters.'
          : 'No model fits these filters.'}
      </Empty>
    );
  }
  return (
    <DataTable
      caption="Models"
      columns={columns(weights, stats)}
      rows={shown.slice(0, rows)}
      id={(model) => model.id}
      empty=""
      more={rows < shown.length ? () => setRows(rows + step) : undefined}
    />
  );
}

function columns(
  weights: Map<string, Weights> | undefined,
  stats: Map<string, ModelStats> | undefined,
): Column<Model>[] {
  return [
    { name: 'Model', cell: (model) => <Name model={model} /> },
    {
      name: 'Input price',
      numeric: true,
      cell: (model) => <Price model={model} side="input" usd={model.input_price_str} />,
    },
    {
      name: 'Output price',
      numeric: true,
      cell: (model) => <Price model={model} side="output" usd={model.output_price_str} />,
    },
    { name: 'Providers online', numeric: true, cell: (model) => model.online_providers },
    {
      name: 'Time to first token',
      numeric: true,
      cell: (model) => told(stats?.get(model.id)?.ttft_ms_p50, milliseconds),
    },
    {
      name: 'Success, 24 h',
      numeric: true,
      cell: (model) => told(stats?.get(model.id)?.success_rate_24h, percent),
    },
    { name: 'Guaranteed context', numeric: true, cell: (model) => <GuaranteedContext model={model} /> },
    {
      name: 'Token Plan',
      cell: (model) => (
        <Text span inherit>
          {wordFor(tiers, model.tier)}
          <Text span size="sm" c="var(--muted)" display="block">
            {wordFor(shortCoverages, model.plan_coverage)}
          </Text>
        </Text>
      ),
    },
    { name: 'To serve it', optional: true, cell: (model) => toServe(model, weights?.get(model.id)) },
  ];
}

/** What a GPU needs for a model, as far as the catalog knows. */
function toServe(model: Model, weights: Weights | undefined): string {
  const parts: string[] = [];
  if (model.min_vram_gb > 0) parts.push(`${model.min_vram_gb} GB of VRAM`);
  if (weights !== undefined) parts.push(`${bytes(weights.total_size_bytes)} of weights`);
  return parts.join(', ') || '–';
}

function Name({ model }: { model: Model }) {
  return (
    <Stack gap={2} align="flex-start">
      <Anchor component={Link} to={modelPath(model.id)} fw={600} className="breakable">
        {model.name || model.id}
      </Anchor>
      <Id value={model.id} what="model id" full />
      <Group gap={4}>
        <Text size="sm" c="var(--muted)">
          {wordFor(categories, model.category)}
          {model.context_length > 0 ? ` · ${compact(model.context_length)} context` : ''}
        </Text>
        {!isCallable(model) && <State tone="warning">{model.active ? 'nobody online' : 'not in service'}</State>}
        {model.deprecated_at !== null && <State tone="warning">leaving</State>}
      </Group>
    </Stack>
  );
}
