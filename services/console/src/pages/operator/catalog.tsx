import { Anchor, Button, NativeSelect, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import type { ChangeEvent } from 'react';
import { Link } from 'react-router';

import { useNow } from '../../app/live';
import { dollars } from '../../format/money';
import { useFilters } from '../../ui/filters';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Copy, Moment, State } from '../../ui/text';
import { modelPath, newModel, stateOf, unitWords, useCatalog, type Model } from './catalog-data';
import { counts, margin, unitOf } from './invariants';

export default function Catalog() {
  const query = useCatalog();
  return (
    <Page
      title="Catalog"
      lead="The models on offer, what consumers pay and what providers get. Open a model to change it."
      actions={
        <Button component={Link} to={`/catalog/${newModel}`} size="xs">
          New model
        </Button>
      }
    >
      <Loaded query={query}>{(models) => <Models models={models} />}</Loaded>
    </Page>
  );
}

const categories = ['llm', 'multimodal', 'embedding', 'image', 'audio'];
const states = ['in service', 'nobody online', 'going away', 'ended', 'out of service'];

function Models({ models }: { models: Model[] }) {
  const now = useNow();
  const [filters, setFilters] = useFilters({ q: '', category: '', kind: '', state: '' });
  const words = filters.q.trim().toLowerCase();
  const shown = models.filter(
    (model) =>
      (words === '' || `${model.id} ${model.name} ${model.slug}`.toLowerCase().includes(words)) &&
      (filters.category === '' || model.category === filters.category) &&
      (filters.kind === '' || model.kind === filters.kind) &&
      (filters.state === '' || stateOf(model, now).word === filters.state),
  );
  const of = (...words: string[]) => models.filter((model) => words.includes(stateOf(model, now).word)).length;
  return (
    <>
      <SimpleGrid cols={{ base: 1, xs: 3 }}>
        <Figure label="In service" note="With a provider online.">
          {of('in service', 'going away')}
        </Figure>
        <Figure label="Nobody online" note="On offer, but nobody serves them now.">
          {of('nobody online')}
        </Figure>
        <Figure label="Going away" note="Announced, and not over yet.">
          {models.filter((model) => model.active && Date.parse(model.deprecated_at ?? '') > now).length}
        </Figure>
      </SimpleGrid>
      <Section
        title="Models"
        json={shown}
        note="Prices are US dollars in the unit of the model. The margin is price less payout."
      >
        <Stack>
          <SimpleGrid cols={{ base: 1, xs: 2, md: 4 }}>
            <TextInput
              label="Search"
              description="Part of the id, name or slug"
              value={filters.q}
              onChange={(event) => setFilters({ q: event.currentTarget.value })}
            />
            <Choice
              label="Category"
              value={filters.category}
              options={categories}
              set={(category) => setFilters({ category })}
            />
            <Choice
              label="Served by"
              value={filters.kind}
              options={['open', 'gateway']}
              set={(kind) => setFilters({ kind })}
            />
            <Choice label="State" value={filters.state} options={states} set={(state) => setFilters({ state })} />
          </SimpleGrid>
          <DataTable
            caption="Models of the catalog"
            columns={columns(now)}
            rows={shown}
            id={(model) => model.id}
            empty={
              models.length === 0
                ? 'The catalog has no model yet. Add the first with “New model”.'
                : 'No model fits these filters.'
            }
          />
        </Stack>
      </Section>
    </>
  );
}

interface ChoiceProps {
  label: string;
  value: string;
  options: string[];
  set: (value: string) => void;
}

function Choice({ label, value, options, set }: ChoiceProps) {
  const data = [{ value: '', label: 'All' }, ...options.map((option) => ({ value: option, label: option }))];
  const change = (event: ChangeEvent<HTMLSelectElement>) => set(event.currentTarget.value);
  return <NativeSelect label={label} description="Only these" value={value} data={data} onChange={change} />;
}

function columns(now: number): Column<Model>[] {
  return [
    { name: 'Model', cell: (model) => <Name model={model} /> },
    { name: 'Served by', cell: (model) => model.kind },
    { name: 'Tier', cell: (model) => model.tier },
    {
      name: 'Price in, out',
      numeric: true,
      cell: (model) => <Prices model={model} input={model.input_price_str} output={model.output_price_str} unit />,
    },
    {
      name: 'Payout in, out',
      numeric: true,
      cell: (model) => (
        <Prices model={model} input={model.payout_input_price_str} output={model.payout_output_price_str} />
      ),
    },
    { name: 'Margin in, out', numeric: true, cell: margins },
    { name: 'Providers online', numeric: true, cell: (model) => model.online_providers },
    { name: 'State', cell: (model) => <StateOf model={model} now={now} /> },
  ];
}

function Name({ model }: { model: Model }) {
  return (
    <span className="breakable">
      <Anchor component={Link} to={modelPath(model.id)} underline="always" inherit>
        {model.id}
      </Anchor>
      <Copy value={model.id} what="model id" />
      <Text size="xs" c="var(--muted)" component="div">
        {model.name === model.id ? model.category : `${model.name}, ${model.category}`}
      </Text>
    </span>
  );
}

function Prices({
  model,
  input,
  output,
  unit = false,
}: {
  model: Model;
  input: string;
  output: string;
  unit?: boolean;
}) {
  const counted = counts(unitOf(model.category));
  return (
    <>
      {[counted.input ? dollars(input) : '', counted.output ? dollars(output) : '']
        .filter((one) => one !== '')
        .join(', ')}
      {unit && (
        <Text size="xs" c="var(--muted)" component="div">
          {unitWords(model.pricing_unit)}
        </Text>
      )}
      {unit && model.price_change !== null && (
        <Text size="xs" c="var(--muted)" component="div">
          Changes <Moment at={model.price_change.effective_from} />
        </Text>
      )}
    </>
  );
}

function margins(model: Model): string {
  const unit = unitOf(model.category);
  const counted = counts(unit);
  const shares = [
    counted.input ? margin(unit, model.input_price_str, model.payout_input_price_str) : null,
    counted.output ? margin(unit, model.output_price_str, model.payout_output_price_str) : null,
  ];
  const shown = shares.filter((one) => one !== null).map((one) => one.share ?? '–');
  return [...new Set(shown)].join(', '); // mostly both are the same
}

function StateOf({ model, now }: { model: Model; now: number }) {
  const { word, tone } = stateOf(model, now);
  return (
    <>
      <State tone={tone}>{word}</State>
      {model.deprecated_at !== null && (
        <Text size="xs" c="var(--muted)" component="div">
          Ends <Moment at={model.deprecated_at} />
        </Text>
      )}
    </>
  );
}
