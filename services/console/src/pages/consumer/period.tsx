import { Button, Group, NativeSelect, TextInput } from '@mantine/core';

import { useKeys, useModelIds, type RequestFilter } from './queries';

interface PeriodProps {
  from: string;
  to: string;
  onChange: (change: { from?: string; to?: string }) => void;
}

/** The days of a view. Without them it is of the last 30 days. */
export function Period({ from, to, onChange }: PeriodProps) {
  return (
    <Group gap="xs" align="flex-end">
      <TextInput
        size="xs"
        type="date"
        label="From day (UTC)"
        value={from}
        max={to || undefined}
        onChange={(event) => onChange({ from: event.currentTarget.value })}
      />
      <TextInput
        size="xs"
        type="date"
        label="To day (UTC)"
        value={to}
        min={from || undefined}
        onChange={(event) => onChange({ to: event.currentTarget.value })}
      />
      {(from !== '' || to !== '') && (
        <Button size="xs" variant="default" onClick={() => onChange({ from: '', to: '' })}>
          Last 30 days
        </Button>
      )}
    </Group>
  );
}

/** Chooses requests by days, key and model. */
export function RequestFilters({
  filter,
  onChange,
}: {
  filter: RequestFilter;
  onChange: (change: Partial<RequestFilter>) => void;
}) {
  const keys = useKeys(true).data?.list ?? [];
  const models = useModelIds();
  return (
    <Group gap="xs" align="flex-end" mb="sm">
      <Period from={filter.from} to={filter.to} onChange={onChange} />
      <NativeSelect
        size="xs"
        label="Key"
        value={filter.key}
        onChange={(event) => onChange({ key: event.currentTarget.value })}
        data={options(
          'All keys',
          keys.map((key) => ({ value: key.key_id, label: `${key.name || 'without a name'} (${key.key_prefix}…)` })),
          filter.key,
        )}
      />
      <NativeSelect
        size="xs"
        label="Model"
        value={filter.model}
        onChange={(event) => onChange({ model: event.currentTarget.value })}
        data={options(
          'All models',
          models.map((id) => ({ value: id, label: id })),
          filter.model,
        )}
      />
    </Group>
  );
}

interface Option {
  value: string;
  label: string;
}

/** The choices, with the chosen one among them although it may be older than the list. */
function options(all: string, list: Option[], chosen: string): Option[] {
  const known = chosen === '' || list.some((option) => option.value === chosen);
  return [{ value: '', label: all }, ...list, ...(known ? [] : [{ value: chosen, label: chosen }])];
}
