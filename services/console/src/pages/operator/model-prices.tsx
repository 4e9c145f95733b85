// Prices and payouts of a model, and what the platform keeps of each.

import { Button, Group, SimpleGrid, TextInput } from '@mantine/core';

import { Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Money } from '../../ui/text';
import { unitWords, type Model } from './catalog-data';
import { counts, decimalsOf, formatPrice, margin, parsePrice, unitOf } from './invariants';
import type { Margin, PriceField, Unit } from './invariants';
import { labels, payoutAt } from './model-draft';
import type { FieldsProps } from './model-editor';

export function ModelPrices(props: FieldsProps & { current: Model | null }) {
  const { draft, set, current } = props;
  const unit = unitOf(draft.category);
  const counted = counts(unit);
  const cached = draft.kind === 'gateway' && unit === 'per_1m_tokens';
  const sides = [...(counted.input ? (['input'] as const) : []), ...(counted.output ? (['output'] as const) : [])];
  function usual() {
    set(
      Object.fromEntries(sides.map((side) => [`payout_${side}_price`, payoutAt(draft, draft[`${side}_price`], 90n)])),
    );
  }
  return (
    <Section
      title="Prices and margin"
      note={
        `US dollars ${unitWords(unit)}, with at most ${decimalsOf(unit)} decimals. Empty is zero. ` +
        'What costs something has a payout, and no payout is above its price.'
      }
      actions={
        <Button size="xs" variant="default" onClick={usual}>
          Set payouts to 90%
        </Button>
      }
    >
      <SimpleGrid cols={{ base: 1, sm: 2 }} mb="md">
        {sides.map((side) => (
          <SidePrices key={side} {...props} side={side} />
        ))}
      </SimpleGrid>
      {cached && (
        <Group mb="md">
          <Price
            {...props}
            field="payout_cached_input_price"
            note="What the vendor asks for prompt tokens that it read from its cache. Empty where they cost what others do."
          />
        </Group>
      )}
      <div aria-live="polite">
        <DataTable
          caption={`What the platform keeps, ${unitWords(unit)}`}
          columns={marginColumns}
          rows={sides.map((side) => rowOf(side, props, unit, current))}
          id={(row) => row.name}
          empty="No prices."
        />
      </div>
    </Section>
  );
}

function SidePrices({ side, ...props }: FieldsProps & { side: 'input' | 'output' }) {
  const what = side === 'input' ? 'what is sent' : 'what comes back';
  const earner = props.draft.kind === 'gateway' ? 'The vendor is owed it.' : 'The provider earns it.';
  return (
    <>
      <Price {...props} field={`${side}_price`} note={`Consumers pay it for ${what}.`} />
      <Price {...props} field={`payout_${side}_price`} note={earner} />
    </>
  );
}

function Price({ draft, set, problem, field, note }: FieldsProps & { field: PriceField; note: string }) {
  return (
    <TextInput
      label={labels[field]}
      description={note}
      value={draft[field]}
      onChange={(event) => set({ [field]: event.currentTarget.value.trim() })}
      error={problem(field)}
      leftSection="$"
      inputMode="decimal"
      autoComplete="off"
      styles={{ input: { fontVariantNumeric: 'tabular-nums', textAlign: 'right' } }}
    />
  );
}

interface MarginRow {
  name: string;
  price: string | null;
  payout: string | null;
  then: Margin | null;
  now: Margin | null;
}

function rowOf(side: 'input' | 'output', { draft }: FieldsProps, unit: Unit, current: Model | null): MarginRow {
  const [price, payout] = [draft[`${side}_price`], draft[`payout_${side}_price`]];
  const same = current !== null && unitOf(current.category) === unit;
  return {
    name: side === 'input' ? 'Input' : 'Output',
    price: written(unit, price),
    payout: written(unit, payout),
    then: margin(unit, price, payout),
    now: same ? margin(unit, current[`${side}_price_str`], current[`payout_${side}_price_str`]) : null,
  };
}

function written(unit: Unit, text: string): string | null {
  const value = parsePrice(unit, text);
  return value === null ? null : formatPrice(unit, value);
}

const marginColumns: Column<MarginRow>[] = [
  { name: 'Dimension', cell: (row) => row.name },
  { name: 'Price', numeric: true, cell: (row) => <Dollars usd={row.price} /> },
  { name: 'Payout', numeric: true, cell: (row) => <Dollars usd={row.payout} /> },
  { name: 'Margin', numeric: true, cell: (row) => <Dollars usd={row.then?.usd ?? null} /> },
  { name: 'Of the price', numeric: true, cell: (row) => row.then?.share ?? '–' },
  { name: 'Margin now', numeric: true, cell: (row) => <MarginNow margin={row.now} /> },
];

function Dollars({ usd }: { usd: string | null }) {
  return usd === null ? <>–</> : <Money usd={usd} />;
}

function MarginNow({ margin: now }: { margin: Margin | null }) {
  if (now === null) return <>–</>;
  return (
    <>
      <Money usd={now.usd} />
      {now.share === null ? '' : ` (${now.share})`}
    </>
  );
}
