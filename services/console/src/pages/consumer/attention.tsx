// What a consumer should look at now, worked out of what the API answers.

import { Anchor, Group, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { Link } from 'react-router';

import type { Schemas } from '../../api/client';
import { dollars, isNegative, isZero } from '../../format/money';
import { State } from '../../ui/text';
import { isBelow } from './exact';

export interface Matter {
  /** What it is about; one of a kind. */
  id: string;
  urgent: boolean;
  text: ReactNode;
  to?: { page: string; label: string };
}

interface Facts {
  balance: Schemas['GetBalanceResponse'];
  user: Schemas['User'] | null | undefined;
  keys: Schemas['ConsumerKey'][];
  subscription: Schemas['PlanSubscription'] | null | undefined;
  webhooks: Schemas['ListWebhooksResponse'] | undefined;
  now: number;
}

const fewDays = 3;
const weekMs = 7 * 86_400_000;

/** The matters of an account, the urgent ones first. */
export function mattersOf(facts: Facts): Matter[] {
  const all = [
    ...ofStanding(facts),
    ...ofBalance(facts),
    ...ofLimits(facts.balance.limits),
    ...ofPlan(facts),
    ...ofKeys(facts),
    ...ofWebhooks(facts),
  ];
  return all.sort((a, b) => Number(b.urgent) - Number(a.urgent));
}

function ofStanding({ balance, user }: Facts): Matter[] {
  const matters: Matter[] = balance.freezes
    .filter((freeze) => freeze.lifted_at === null)
    .map((freeze) => ({
      id: `freeze ${freeze.cause} ${freeze.ref}`,
      urgent: true,
      text: `The account is frozen: ${freeze.text}. Requests are refused until this ends.`,
      ...whereTo(freeze.cause),
    }));
  if (balance.frozen && matters.length === 0)
    matters.push({ id: 'frozen', urgent: true, text: `The account is frozen: ${balance.freeze_causes.join('; ')}.` });
  if (!isZero(balance.debt_usd_str)) {
    matters.push({
      id: 'debt',
      urgent: true,
      text: `${dollars(balance.debt_usd_str)} is owed for card payments that were taken back. Credit that you add pays this first.`,
      to: { page: '/credits', label: 'Add credit' },
    });
  }
  if (user && user.email !== '' && !user.email_confirmed) {
    matters.push({
      id: 'email',
      urgent: false,
      text: `The e-mail address ${user.email} is not confirmed. Until then the account can have one key.`,
      to: { page: '/settings', label: 'Confirm it' },
    });
  }
  return matters;
}

function whereTo(cause: string): Pick<Matter, 'to'> {
  return cause === 'debt' ? { to: { page: '/credits', label: 'Add credit' } } : {};
}

function ofBalance({ balance, subscription, webhooks }: Facts): Matter[] {
  const to = { page: '/credits', label: 'Add credit' };
  const available = balance.available_usd_str;
  const hasPlan = (subscription?.plan_in_force ?? '') !== '';
  if (isZero(available) || isNegative(available)) {
    return [
      {
        id: 'empty',
        urgent: !hasPlan,
        text: 'No credit is available. Requests that are paid from credit are refused with status 402.',
        to,
      },
    ];
  }
  if (balance.days_left !== null && balance.days_left < fewDays) {
    return [
      {
        id: 'low',
        urgent: true,
        text: `At what you spent in the last 7 days, the credit lasts ${daysLeft(balance.days_left)}.`,
        to,
      },
    ];
  }
  const low = webhooks?.balance_low_usd_str ?? '';
  if (low !== '' && isBelow(available, low)) {
    return [
      {
        id: 'low',
        urgent: false,
        text: `The available credit is below ${dollars(low)}, the bound that you have set.`,
        to,
      },
    ];
  }
  return [];
}

/** Days in words, without false precision. */
export function daysLeft(days: number): string {
  if (days < 1) return 'less than a day';
  if (days >= 365) return 'more than a year';
  return days < 10 ? `${days.toFixed(1)} days` : `${Math.floor(days)} days`;
}

function ofLimits(limits: Schemas['ConsumerLimits'] | null): Matter[] {
  const bounds = [limits?.day, limits?.month].filter((bound) => bound !== null && bound !== undefined);
  return bounds
    .filter((bound) => isZero(bound.left_usd_str))
    .map((bound) => ({
      id: `cap ${bound.period}`,
      urgent: true,
      text:
        `The spend cap of the ${bound.period}, ${dollars(bound.bound_usd_str)}, is reached. ` +
        `Requests are refused until the next ${bound.period} (UTC).`,
      to: { page: '/limits', label: 'Change it' },
    }));
}

function ofPlan({ subscription }: Facts): Matter[] {
  const to = { page: '/plan', label: 'See the plan' };
  if (subscription?.state === 'past_due')
    return [{ id: 'plan', urgent: true, text: 'The last payment of the plan did not go through.', to }];
  if (subscription?.state === 'incomplete')
    return [{ id: 'plan', urgent: false, text: 'The plan is not paid yet.', to }];
  return [];
}

function ofKeys({ keys, now }: Facts): Matter[] {
  const matters: Matter[] = [];
  for (const key of keys) {
    const name = key.name || key.key_prefix;
    const to = { page: `/keys?key=${key.key_id}`, label: 'Open the key' };
    if (key.budget !== null && isZero(key.budget.left_usd_str) && key.state === 'active') {
      matters.push({
        id: `budget ${key.key_id}`,
        urgent: true,
        text: `The budget of the key “${name}” is spent. Its requests are refused.`,
        to,
      });
    }
    if (key.state === 'active' && key.expires_at !== null && Date.parse(key.expires_at) - now < weekMs) {
      matters.push({ id: `expiry ${key.key_id}`, urgent: false, text: `The key “${name}” expires within a week.`, to });
    }
  }
  return matters;
}

function ofWebhooks({ webhooks }: Facts): Matter[] {
  return (webhooks?.list ?? [])
    .filter((webhook) => webhook.failing_since !== null || ['gone', 'failing'].includes(webhook.note))
    .map((webhook) => ({
      id: `webhook ${webhook.webhook_id}`,
      urgent: false,
      text: webhook.enabled
        ? `Deliveries to ${webhook.url} fail.`
        : `Deliveries to ${webhook.url} failed for days, so it was turned off.`,
      to: { page: `/webhooks-of-account?webhook=${webhook.webhook_id}`, label: 'Open the webhook' },
    }));
}

/** The matters, or that there is none. */
export function Attention({ matters }: { matters: Matter[] }) {
  if (matters.length === 0) return <Text size="sm">Nothing needs you now.</Text>;
  return (
    <Stack component="ul" gap="sm" p={0} m={0} style={{ listStyle: 'none' }}>
      {matters.map((matter) => (
        <Group component="li" key={matter.id} gap="sm" wrap="nowrap" align="flex-start">
          <State tone={matter.urgent ? 'bad' : 'warning'}>{matter.urgent ? 'Now' : 'Soon'}</State>
          <Text size="sm" className="breakable" component="div">
            {matter.text}{' '}
            {matter.to !== undefined && (
              <Anchor component={Link} to={matter.to.page} inherit>
                {matter.to.label}
              </Anchor>
            )}
          </Text>
        </Group>
      ))}
    </Stack>
  );
}
