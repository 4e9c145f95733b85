import { Anchor, Button, Stack } from '@mantine/core';
import { Link } from 'react-router';

import { useNow } from '../../app/live';
import type { Schemas } from '../../api/client';
import { Failure, Figure, Loaded, Page, Section } from '../../ui/page';
import { Moment, Money } from '../../ui/text';
import { Attention, mattersOf } from './attention';
import { Burn } from './burn';
import { Figures } from './figures';
import { useBalance, useKeys, useMe, useSubscription, useUsedRequests, useWebhooks } from './queries';
import { RequestTable } from './request-table';
import { Steps, stepsOf } from './steps';

export default function Overview() {
  const balance = useBalance();
  return (
    <Page
      title="Overview"
      lead="What you have, how fast it is spent, and what needs you."
      actions={
        <Button component={Link} to="/credits" size="xs">
          Add credit
        </Button>
      }
    >
      <Loaded query={balance}>
        {(data) => (
          <Stack gap="lg">
            <Standing balance={data} />
            <ToDo balance={data} />
          </Stack>
        )}
      </Loaded>
      <LastRequests />
    </Page>
  );
}

function Standing({ balance }: { balance: Schemas['GetBalanceResponse'] }) {
  return (
    <div aria-live="polite">
      <Figures>
        <Figure label="Available credit" note="What further requests may use.">
          <Money usd={balance.available_usd_str} rounded />
        </Figure>
        <Burn balance={balance} />
        <Figure label="Held" note="Set aside for requests under way.">
          <Money usd={balance.held_usd_str} rounded />
        </Figure>
      </Figures>
    </div>
  );
}

/** What needs the reader, and the next steps of an account that is new. */
function ToDo({ balance }: { balance: Schemas['GetBalanceResponse'] }) {
  const me = useMe();
  const keys = useKeys();
  const subscription = useSubscription();
  const webhooks = useWebhooks();
  const now = useNow();

  const facts = {
    balance,
    user: me.data?.user,
    keys: keys.data?.list ?? [],
    subscription: subscription.data?.subscription,
  };
  const steps = stepsOf(facts);
  const isNew =
    keys.data !== undefined && steps.some((step) => !step.done) && facts.keys.every((key) => key.last_used_at === null);
  const asked = [me, keys, subscription, webhooks];
  const failed = asked.find((query) => query.isError);
  const complete = asked.every((query) => query.isSuccess);
  const matters = mattersOf({ ...facts, webhooks: webhooks.data, now });
  return (
    <>
      <Section
        title="Needs you"
        json={balance}
        note={
          <>
            Credit is up to date. Spending is counted up to <Moment at={balance.as_of} />.
          </>
        }
      >
        {failed !== undefined && (
          <Failure error={failed.error} retry={() => void failed.refetch()} title="Not everything could be looked at" />
        )}
        {(complete || matters.length > 0) && <Attention matters={matters} />}
      </Section>
      {isNew && (
        <Section title="Next steps" note="From a new account to the first answer.">
          <Steps steps={steps} />
        </Section>
      )}
    </>
  );
}

const shown = 5;

function LastRequests() {
  const requests = useUsedRequests({ from: '', to: '', key: '', model: '' }, shown);
  const list = requests.data?.pages[0]?.requests ?? [];
  return (
    <Section
      title="Last requests"
      actions={
        <Anchor component={Link} to="/requests" size="sm">
          All requests
        </Anchor>
      }
    >
      <Loaded query={requests}>
        {() => (
          <RequestTable
            requests={list}
            empty={
              <>
                No request was settled in the last 30 days.{' '}
                <Anchor component={Link} to="/quick-start" inherit>
                  Send one
                </Anchor>
                .
              </>
            }
          />
        )}
      </Loaded>
    </Section>
  );
}
