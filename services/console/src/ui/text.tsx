// Values as text: money, moments, ids, states.

import { ActionIcon, Badge, Code, CopyButton, Group, Text, Tooltip } from '@mantine/core';

import { usePreferences } from '../app/preferences';
import { useNow } from '../app/live';
import { aligned, cents, isNegative } from '../format/money';
import { moment, relative } from '../format/time';
import { CheckIcon, CopyIcon } from './icons';

/** Dollars, in digits of one width. What is only an estimate may be rounded to cents; a title has it whole. */
export function Money({ usd, rounded = false }: { usd: string | null; rounded?: boolean }) {
  if (usd === null) return '–';
  return (
    <Text
      span
      inherit
      className={isNegative(usd) ? 'tabular negative' : 'tabular'}
      title={rounded ? aligned(usd) : undefined}
    >
      {rounded ? cents(usd) : aligned(usd)}
    </Text>
  );
}

/** A moment in the reader's zone, with how long ago it is; a dash where there is none. */
export function Moment({ at, withAge = false }: { at: string | null | undefined; withAge?: boolean }) {
  const { zone } = usePreferences();
  const now = useNow();
  if (at === null || at === undefined || at === '')
    return (
      <Text span inherit>
        –
      </Text>
    );
  return (
    <Text span inherit className="tabular" title={relative(at, now)}>
      <time dateTime={at}>{moment(at, zone)}</time>
      {withAge ? ` (${relative(at, now)})` : ''}
    </Text>
  );
}

/** An id in short, with a button that copies it whole. */
export function Id({ value, what = 'id', full = false }: { value: string; what?: string; full?: boolean }) {
  if (value === '')
    return (
      <Text span inherit>
        –
      </Text>
    );
  const shown = full || value.length <= 14 ? value : `${value.slice(0, 8)}…${value.slice(-4)}`;
  return (
    <Group component="span" gap={2} wrap="nowrap" display="inline-flex">
      <Code title={value} className={full ? 'breakable' : 'short'}>
        {shown}
      </Code>
      <Copy value={value} what={what} />
    </Group>
  );
}

/** A button that copies a value, and says so to screen readers, too. */
export function Copy({ value, what }: { value: string; what: string }) {
  return (
    <CopyButton value={value} timeout={2000}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? 'Copied' : `Copy ${what}`}>
          <ActionIcon
            variant="subtle"
            color="gray"
            size="sm"
            onClick={copy}
            aria-label={copied ? 'Copied' : `Copy ${what}`}
          >
            {copied ? <CheckIcon /> : <CopyIcon />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/** How a state is to be taken. */
export type Tone = 'good' | 'busy' | 'warning' | 'bad' | 'neutral';

const colors: Record<Tone, string> = { good: 'teal', busy: 'blue', warning: 'yellow', bad: 'red', neutral: 'gray' };

/** A state in a word. The colour is never the only sign: the word says it. */
export function State({ children, tone = 'neutral' }: { children: string; tone?: Tone }) {
  return (
    <Badge variant="light" color={colors[tone]} className={`state state-${tone}`} tt="none">
      {children.replaceAll('_', ' ')}
    </Badge>
  );
}
