import { Button, Group, Stack, Text } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { usePreferences } from '../../app/preferences';
import { answer, api, type Schemas } from '../../api/client';
import { dollars } from '../../format/money';
import { moment, type Zone } from '../../format/time';
import { Confirm } from '../../ui/confirm';
import { Empty, Failure, Loaded, Page, Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Moment, Money, State, type Tone } from '../../ui/text';
import { usedPercent } from './exact';
import { factIf } from './facts';
import { Gauge } from './gauge';
import { useOnce } from './once';
import { PlanOffers } from './plan-offers';
import { amountOf, labelOf } from './plan-words';
import { subscriptionKey, useSubscription } from './queries';
import { outside } from './words';

type Subscription = Schemas['PlanSubscription'];

const pollSeconds = 5;

export default function Plan() {
  const subscription = useSubscription(pollSeconds);
  return (
    <Page
      title="Plan"
      lead={
        <>
          A plan covers a bounded amount of requests for a monthly price. What it does not cover is paid from credit:
          premium models, requests that choose their provider, and what is above its bounds.
        </>
      }
    >
      <Loaded query={subscription}>
        {(data) =>
          data.subscription === null ? (
            <Empty>There is no plan.</Empty>
          ) : (
            <Stack gap="lg">
              <Standing subscription={data.subscription} />
              <Gauges subscription={data.subscription} />
              {buys(data.subscription) && <PlanOffers buy={(plan, label) => <Subscribe plan={plan} label={label} />} />}
            </Stack>
          )
        }
      </Loaded>
    </Page>
  );
}

const states: Record<string, { word: string; tone: Tone }> = {
  none: { word: 'No plan', tone: 'neutral' },
  incomplete: { word: 'Not paid yet', tone: 'warning' },
  active: { word: 'Active', tone: 'good' },
  past_due: { word: 'Payment due', tone: 'bad' },
  ended: { word: 'Ended', tone: 'neutral' },
};

const causes: Record<string, string> = {
  abandoned: 'it was never paid',
  cancelled: 'you cancelled it',
  unpaid: 'its next period was not paid',
  refunded: 'its price was given back',
};

function Standing({ subscription }: { subscription: Subscription }) {
  const state = states[subscription.state] ?? { word: subscription.state, tone: 'neutral' as const };
  const bought = subscription.state !== 'none';
  return (
    <Section title="Your plan" json={subscription}>
      <Stack>
        <Group gap="xs" aria-live="polite">
          <State tone={state.tone}>{state.word}</State>
          <Explanation subscription={subscription} />
        </Group>
        {(bought || subscription.plan_in_force !== '') && (
          <Facts
            facts={[
              ['Plan in force', subscription.plan_in_force || 'None'],
              [
                'In force until',
                subscription.plan_in_force === '' || subscription.in_force_until !== null ? (
                  <Moment at={subscription.in_force_until} withAge />
                ) : (
                  'No end'
                ),
              ],
              ...factIf(bought, 'Price a month', <Money usd={subscription.price_usd_str} />),
              ...factIf(bought, 'Paid from', <Moment at={subscription.period_start} />),
              ...factIf(bought, 'Paid until', <Moment at={subscription.period_end} />),
            ]}
          />
        )}
        <Actions subscription={subscription} />
      </Stack>
    </Section>
  );
}

function Explanation({ subscription }: { subscription: Subscription }) {
  switch (subscription.state) {
    case 'none':
      return (
        <Text size="sm">
          {subscription.plan_in_force === ''
            ? 'All requests are paid from credit.'
            : 'An operator has given this plan to the account.'}
        </Text>
      );
    case 'incomplete':
      return (
        <Text size="sm">
          It begins once the card processor says that it is paid. This page asks every {pollSeconds} seconds.
        </Text>
      );
    case 'past_due':
      return (
        <Text size="sm">
          The last period was not followed by a paid one. The card processor tries again for some days.
        </Text>
      );
    case 'ended':
      return (
        <Text size="sm">It ended, because {causes[subscription.ended_because] ?? subscription.ended_because}.</Text>
      );
    default:
      return subscription.cancel_at_period_end ? (
        <Text size="sm">
          It is cancelled and lasts until <Moment at={subscription.period_end} withAge />.
        </Text>
      ) : (
        <Text size="sm">
          The next payment is due <Moment at={subscription.period_end} withAge />.
        </Text>
      );
  }
}

function Actions({ subscription }: { subscription: Subscription }) {
  const page = outside(subscription.url);
  const running = subscription.state === 'active' || subscription.state === 'past_due';
  if (subscription.state === 'incomplete') {
    return (
      <Group>
        {page === undefined ? (
          <Subscribe plan={subscription.plan} label="Open a new card page" />
        ) : (
          <Button component="a" href={page} rel="noreferrer">
            Pay {dollars(subscription.price_usd_str)} on the card page
          </Button>
        )}
        <Cancel subscription={subscription} />
      </Group>
    );
  }
  if (running && subscription.cancel_at_period_end) return <Subscribe plan={subscription.plan} label="Keep the plan" />;
  if (running) return <Cancel subscription={subscription} />;
  return null;
}

/** Whether a plan can be bought now. */
function buys(subscription: Subscription): boolean {
  return ['none', 'ended'].includes(subscription.state) && subscription.plan_in_force === '';
}

function Subscribe({ plan, label }: { plan: string; label: string }) {
  const queries = useQueryClient();
  const once = useOnce();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  async function go() {
    setBusy(true);
    setError(null);
    try {
      await once((key) =>
        answer(
          api.POST('/api/v1/consumer/subscription', {
            headers: { 'Idempotency-Key': key },
            body: { plan, return_url: `${window.location.origin}/app/plan` },
          }),
        ),
      );
      await queries.invalidateQueries({ queryKey: subscriptionKey });
    } catch (thrown) {
      setError(thrown);
    } finally {
      setBusy(false);
    }
  }
  return (
    <Stack gap="xs" align="flex-start">
      <Button onClick={() => void go()} loading={busy}>
        {label}
      </Button>
      {error !== null && <Failure error={error} />}
    </Stack>
  );
}

function Cancel({ subscription }: { subscription: Subscription }) {
  const queries = useQueryClient();
  const { zone } = usePreferences();
  async function act() {
    await answer(api.DELETE('/api/v1/consumer/subscription'));
    await queries.invalidateQueries({ queryKey: subscriptionKey });
  }
  return (
    <Confirm label="Cancel the plan" title="Cancel the plan?" act={act} destructive size="sm">
      {whatCancelDoes(subscription, zone)}
    </Confirm>
  );
}

function whatCancelDoes(subscription: Subscription, zone: Zone): string {
  if (subscription.state === 'incomplete') return 'Nothing was paid for it, so it ends at once.';
  if (subscription.state === 'past_due') return 'Its paid period is over, so it ends. Requests are paid from credit.';
  const end = subscription.period_end === null ? 'the end of its period' : moment(subscription.period_end, zone);
  return (
    `It lasts until ${end}, and nothing more is charged for it. Until then you can keep it. ` +
    'After that, requests are paid from credit.'
  );
}

const countingNote =
  'A request counts when it is admitted, with its estimate, and is corrected when it settles. Above the bounds of a day, ' +
  'week or month, credit pays. Above those of a minute and of concurrency, requests get status 429.';

function Gauges({ subscription }: { subscription: Subscription }) {
  if (subscription.plan_in_force === '') return null;
  return (
    <Section title="What is used" json={subscription.limits} note={countingNote}>
      {subscription.limits.length === 0 ? (
        <Empty>This plan has no bounds.</Empty>
      ) : (
        <Stack aria-live="polite">
          {subscription.limits.map((limit) => (
            <Gauge
              key={`${limit.kind} ${limit.period}`}
              label={labelOf(limit)}
              percent={usedPercent(limit.used, limit.cap)}
              note={
                limit.resets_at === null ? undefined : (
                  <>
                    A new window begins <Moment at={limit.resets_at} withAge />.
                  </>
                )
              }
            >
              {amountOf(limit, limit.used)} of {amountOf(limit, limit.cap)}
            </Gauge>
          ))}
        </Stack>
      )}
    </Section>
  );
}
