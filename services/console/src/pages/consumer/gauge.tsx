import { Group, Progress, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';

interface GaugeProps {
  label: string;
  /** From 0 to 100. */
  percent: number;
  /** The figures in words: the bar shows nothing that they do not say. */
  children: ReactNode;
  note?: ReactNode;
  /** Whether a full bar is a warning, and not a goal. */
  warns?: boolean;
}

/** How much of a bound is used. */
export function Gauge({ label, percent, children, note, warns = true }: GaugeProps) {
  return (
    <Stack gap={4}>
      <Group justify="space-between" gap="xs">
        <Text size="sm">{label}</Text>
        <Text size="sm" className="tabular" component="div">
          {children}
        </Text>
      </Group>
      <Progress value={percent} aria-label={label} color={warns ? colorOf(percent) : undefined} />
      {note !== undefined && (
        <Text size="xs" c="var(--muted)" component="div">
          {note}
        </Text>
      )}
    </Stack>
  );
}

function colorOf(percent: number): string | undefined {
  if (percent >= 90) return 'red';
  return percent >= 75 ? 'orange' : undefined;
}
