// What a new account does to get to its first answer.

import { Anchor, Group, Stack, Text } from '@mantine/core';
import { Link } from 'react-router';

import type { Schemas } from '../../api/client';
import { isZero } from '../../format/money';
import { State } from '../../ui/text';

export interface Step {
  title: string;
  text: string;
  page: string;
  label: string;
  done: boolean;
}

interface Facts {
  balance: Schemas['GetBalanceResponse'];
  user: Schemas['User'] | null | undefined;
  keys: Schemas['ConsumerKey'][];
  subscription: Schemas['PlanSubscription'] | null | undefined;
}

export function stepsOf({ balance, user, keys, subscription }: Facts): Step[] {
  const steps: Step[] = [
    {
      title: 'Add credit',
      text: 'By card from $5, or by crypto. Free models work without it.',
      page: '/credits',
      label: 'Add credit',
      done: !isZero(balance.credit_usd_str) || (subscription?.plan_in_force ?? '') !== '',
    },
    {
      title: 'Make a key',
      text: 'Programs send it with each request.',
      page: '/keys',
      label: 'Make a key',
      done: keys.some((key) => key.state === 'active'),
    },
    {
      title: 'Send the first request',
      text: 'In the playground, or with the code of the quick start.',
      page: '/quick-start',
      label: 'Quick start',
      done: keys.some((key) => key.last_used_at !== null),
    },
  ];
  if (user && user.email !== '') {
    steps.unshift({
      title: 'Confirm your e-mail address',
      text: 'Then the account can have more than one key.',
      page: '/settings',
      label: 'Confirm it',
      done: user.email_confirmed,
    });
  }
  return steps;
}

export function Steps({ steps }: { steps: Step[] }) {
  return (
    <Stack component="ol" gap="sm" p={0} m={0} style={{ listStyle: 'none' }}>
      {steps.map((step) => (
        <Group component="li" key={step.title} gap="sm" wrap="nowrap" align="flex-start">
          <State tone={step.done ? 'good' : 'neutral'}>{step.done ? 'Done' : 'To do'}</State>
          <Text size="sm" component="div">
            <Text span inherit fw={600}>
              {step.title}.
            </Text>{' '}
            {step.text}{' '}
            {!step.done && (
              <Anchor component={Link} to={step.page} inherit>
                {step.label}
              </Anchor>
            )}
          </Text>
        </Group>
      ))}
    </Stack>
  );
}
