import { count, milliseconds, percent } from '../../format/quantity';
import { Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import type { Status } from './queries';

type Model = NonNullable<Status['traffic']>['models'][number];

const columns: Column<Model>[] = [
  { name: 'Model', cell: (model) => <span className="breakable">{model.model_id}</span> },
  { name: 'Attempts in 24 hours', cell: (model) => known(model.attempts_24h, count), numeric: true },
  { name: 'Served of them', cell: (model) => known(model.success_rate_24h, (rate) => percent(rate, 2)), numeric: true },
  { name: 'Time to first token, median', cell: (model) => known(model.ttft_ms_p50, milliseconds), numeric: true },
  { name: 'Time to first token, 95 %', cell: (model) => known(model.ttft_ms_p95, milliseconds), numeric: true },
  {
    name: 'Tokens a second, median',
    cell: (model) => known(model.tokens_per_second_p50, (rate) => rate.toFixed(1)),
    numeric: true,
  },
];

/** How fast and how reliable the provider is with each model, from the router's own counters. */
export function Quality({ models }: { models: Model[] }) {
  return (
    <Section
      title="Speed and reliability"
      json={models}
      note={
        <>
          From the attempts that the router heard of. What the caller or its content brought about does not count. Times
          and speeds are of the last 64 attempts. A dash: nothing was served yet.
        </>
      }
    >
      <DataTable
        caption="Speed and reliability by model"
        columns={columns}
        rows={models}
        id={(model) => model.model_id}
        empty="Figures appear once a machine with a model is connected."
      />
    </Section>
  );
}

function known(value: number | null | undefined, text: (value: number) => string): string {
  return value == null ? '–' : text(value); // a service of an earlier release does not send it
}
