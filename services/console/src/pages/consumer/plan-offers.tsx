// The plans that are sold, with what a month costs and what it allows.

import { Anchor, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { Link } from 'react-router';

import type { Schemas } from '../../api/client';
import { Empty, Loaded, Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Money } from '../../ui/text';
import { amountOf, countsNote, coverageOf, labelOf } from './plan-words';
import { usePlans } from './queries';

type Offer = Schemas['Plan'];

/** `buy` makes the button that buys a plan. */
export function PlanOffers({ buy }: { buy: (plan: string, label: string) => ReactNode }) {
  const plans = usePlans();
  return (
    <Section
      title="Plans"
      json={plans.data}
      note={
        <>
          Nothing is paid before the card page. Each{' '}
          <Anchor component={Link} to="/" inherit>
            model
          </Anchor>{' '}
          shows how a plan covers the model.
        </>
      }
    >
      <Loaded query={plans}>
        {({ plans: sold }) =>
          sold.length === 0 ? (
            <Empty>No plan is sold now.</Empty>
          ) : (
            <Stack gap="lg">
              {sold.map((plan) => (
                <OnePlan key={plan.id} plan={plan} action={buy(plan.id, `Subscribe to ${plan.name}`)} />
              ))}
            </Stack>
          )
        }
      </Loaded>
    </Section>
  );
}

function OnePlan({ plan, action }: { plan: Offer; action: ReactNode }) {
  return (
    <Stack gap="sm" align="flex-start">
      <Text fw={600}>{plan.name}</Text>
      <Facts
        facts={[
          ['Price a month', <Money usd={plan.price_usd_str} />],
          ['Covers', coverageOf(plan.covers)],
          ...plan.limits.map((limit): [string, string] => [
            labelOf(limit),
            amountOf(limit, limit.cap) + countsNote(limit),
          ]),
        ]}
      />
      {action}
    </Stack>
  );
}
