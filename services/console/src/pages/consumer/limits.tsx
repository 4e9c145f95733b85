import { Stack, Text, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState, type ChangeEvent } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { dollars } from '../../format/money';
import { Form, useForm } from '../../ui/form';
import { Empty, Loaded, Page, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Moment } from '../../ui/text';
import { usedPercent } from './exact';
import { Gauge } from './gauge';
import { balanceKey, limitsKey, useLimits } from './queries';
import { atATime, categoryRates, limitText } from './rates';

type ConsumerLimits = Schemas['ConsumerLimits'];

export default function Limits() {
  const limits = useLimits();
  return (
    <Page
      title="Limits"
      lead="What this account may spend and how fast it may ask. A budget for one program stands at its key."
    >
      <Loaded query={limits}>
        {(data) =>
          data.limits === null ? (
            <Empty>The account has no limits.</Empty>
          ) : (
            <Stack gap="lg">
              <Spending limits={data.limits} />
              <Caps limits={data.limits} />
              <Rates limits={data.limits} />
            </Stack>
          )
        }
      </Loaded>
    </Page>
  );
}

function Spending({ limits }: { limits: ConsumerLimits }) {
  const bounds = [limits.day, limits.month].filter((bound) => bound !== null);
  return (
    <Section
      title="Spent of your caps"
      json={limits}
      note={
        <>
          What is charged and what requests under way hold count. What the plan covers does not. Above a cap, requests
          get status 402.
        </>
      }
    >
      {bounds.length === 0 ? (
        <Empty>There is no cap: the account may spend all its credit. Set one below.</Empty>
      ) : (
        <Stack>
          {bounds.map((bound) => (
            <Gauge
              key={bound.period}
              label={`This ${bound.period} (UTC)`}
              percent={usedPercent(bound.spent_usd + bound.held_usd, bound.bound_usd)}
              note={
                <>
                  {dollars(bound.held_usd_str)} is held, and {dollars(bound.left_usd_str)} is left.{' '}
                  {bound.resets_at !== null && (
                    <>
                      The next {bound.period} begins <Moment at={bound.resets_at} withAge />.
                    </>
                  )}
                </>
              }
            >
              {dollars(bound.spent_usd_str)} of {dollars(bound.bound_usd_str)}
            </Gauge>
          ))}
        </Stack>
      )}
    </Section>
  );
}

function Caps({ limits }: { limits: ConsumerLimits }) {
  const queries = useQueryClient();
  const [day, setDay] = useState(limits.own_day_cap_usd_str);
  const [month, setMonth] = useState(limits.own_month_cap_usd_str);
  const [saved, setSaved] = useState(false);
  const form = useForm(
    () =>
      answer(api.PUT('/api/v1/consumer/limits', { body: { day_cap_usd: day.trim(), month_cap_usd: month.trim() } })),
    () => {
      setSaved(true);
      for (const queryKey of [limitsKey, balanceKey]) void queries.invalidateQueries({ queryKey });
    },
  );
  const saying = (set: (value: string) => void) => (event: ChangeEvent<HTMLInputElement>) => {
    setSaved(false);
    set(event.currentTarget.value);
  };
  return (
    <Section
      title="Your spend caps"
      note={
        <>
          An operator may have set caps, too: the lower one counts. Spending counts from the moment on that there is a
          cap. Leave a field empty for no cap; 0 spends nothing.
        </>
      }
    >
      <Form
        form={form}
        label="Save the caps"
        params={['day_cap_usd', 'month_cap_usd']}
        secondary={
          <Text size="sm" role="status">
            {saved && !form.busy ? 'Saved.' : ''}
          </Text>
        }
      >
        <TextInput
          label="US dollars a day (UTC)"
          inputMode="decimal"
          maw={260}
          value={day}
          onChange={saying(setDay)}
          error={form.of('day_cap_usd')}
        />
        <TextInput
          label="US dollars a month (UTC)"
          inputMode="decimal"
          maw={260}
          value={month}
          onChange={saying(setMonth)}
          error={form.of('month_cap_usd')}
        />
      </Form>
    </Section>
  );
}

const rateColumns: Column<{ category: string; rate: string }>[] = [
  { name: 'Category', cell: (one) => one.category },
  { name: 'Requests a minute, for each key', numeric: true, cell: (one) => one.rate },
];

function Rates({ limits }: { limits: ConsumerLimits }) {
  return (
    <Section
      title="How fast you may ask"
      note={
        <>
          Above these, requests get status 429 and the header Retry-After says when to try again. Each answer's header
          X-Ratelimit-Limit-Requests has the rate that counted for it. What an operator agreed with you for a category
          stands on the page Enterprise and takes the place of these.
        </>
      }
    >
      <Stack>
        <DataTable
          caption="Requests a minute, for each key, by category of models"
          columns={rateColumns}
          rows={categoryRates(limits)}
          id={(one) => one.category}
          empty="The service does not say its rates now."
        />
        <Facts
          facts={[
            [
              'Requests a minute for models without a price, for all keys together',
              limitText(limits.defaults?.zero_priced_requests_per_minute ?? 0, 'The default'),
            ],
            ['Requests at a time, for all keys together', atATime(limits)],
          ]}
        />
      </Stack>
    </Section>
  );
}
