import { Anchor, Button, Group, List, Paper, SimpleGrid, Stack, Text } from '@mantine/core';
import { Link } from 'react-router';

import { percent } from '../../format/quantity';
import { Failure, Figure, Loaded, Page, Section } from '../../ui/page';
import { JsonView } from '../../ui/json';
import { Facts } from '../../ui/table';
import { Id, Money, Moment, State } from '../../ui/text';
import { blockersOf, type Blocker } from './blockers';
import { Machine } from './machine-drawing';
import { useAccount, useBenchmarks, useStandings, type Account } from './queries';
import { statusTones } from './words';

export default function Standing() {
  const account = useAccount();
  return (
    <Page
      title="Standing"
      lead={
        <>
          Whether you earn now, what keeps you from it, and what to do next. The figures are renewed every half minute.
        </>
      }
      actions={account.data !== undefined && <JsonView value={account.data} title="your account" />}
    >
      <Loaded query={account}>
        {(me) => (
          <>
            <Lead me={me} />
            <Blockers me={me} />
            <Watch me={me} />
            <Holds me={me} />
            <Machine status={me.status} label={me.label} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Lead({ me }: { me: Account }) {
  const earnings = me.earnings;
  return (
    <>
      <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }} aria-live="polite">
        <Figure label="Status" note={me.message}>
          <Group gap="xs">
            {me.label} <Earning me={me} />
          </Group>
        </Figure>
        {earnings?.today != null && (
          <Figure label="Earned today" note="Since 00:00 UTC">
            <Money usd={earnings.today.earned_usd_str} rounded />
          </Figure>
        )}
        {earnings?.last_7_days != null && (
          <Figure label="Earned in 7 days" note={`Since ${earnings.last_7_days.since}`}>
            <Money usd={earnings.last_7_days.earned_usd_str} rounded />
          </Figure>
        )}
        {earnings?.last_30_days != null && (
          <Figure label="Earned in 30 days" note={`Since ${earnings.last_30_days.since}`}>
            <Money usd={earnings.last_30_days.earned_usd_str} rounded />
          </Figure>
        )}
      </SimpleGrid>
      {earnings === null && (
        <Text size="sm" c="var(--muted)">
          Earnings: {me.notes['earnings'] ?? 'They cannot be told now.'}
        </Text>
      )}
    </>
  );
}

/** Whether the provider earns now. Of an active one that is known only once the verifier has answered. */
function Earning({ me }: { me: Account }) {
  const standings = useStandings();
  if (me.status !== 'active') return <State tone={statusTones[me.status] ?? 'neutral'}>not earning</State>;
  if (!standings.isSuccess) return null;
  if (blockersOf(me, standings.data.list, '').length > 0) return <State tone="warning">see what blocks</State>;
  return <State tone="good">earning</State>;
}

function Blockers({ me }: { me: Account }) {
  const standings = useStandings();
  const benchmarks = useBenchmarks('');
  const running = benchmarks.data?.pages[0]?.list.find((run) => run.result === 'running')?.model_id ?? '';
  const blockers = blockersOf(me, standings.data?.list ?? [], running);
  const none =
    me.status !== 'active'
      ? 'Nothing is missing. The account becomes active by itself within a minute.'
      : standings.isSuccess
        ? 'Nothing: you serve and earn. Requests come as there is demand.'
        : 'Nothing of the account. What the verifier says of your models is being asked.';
  return (
    <Section title="What keeps you from earning now" json={standings.data}>
      <Stack gap="sm" aria-live="polite">
        {blockers.length === 0 && !standings.isError && (
          <Text>
            {none}{' '}
            {me.status === 'active' && (
              <Anchor component={Link} to="/provider/traffic" inherit>
                Why requests come or do not
              </Anchor>
            )}
          </Text>
        )}
        {blockers.map((blocker) => (
          <Block key={blocker.id} of={blocker} />
        ))}
        {standings.isError && (
          <Failure
            error={standings.error}
            retry={() => void standings.refetch()}
            title="What the verifier says of your models is not known"
          />
        )}
      </Stack>
    </Section>
  );
}

function Block({ of: blocker }: { of: Blocker }) {
  return (
    <Paper withBorder p="sm" radius="md">
      <Group justify="space-between" align="flex-start" gap="sm">
        <div style={{ flex: '1 1 260px' }}>
          <Text fw={600} className="breakable">
            {blocker.what}
          </Text>
          {blocker.why !== '' && (
            <Text size="sm" c="var(--muted)" className="breakable">
              {blocker.why}
            </Text>
          )}
        </div>
        {blocker.to === null ? (
          <Text size="sm">{blocker.step}</Text>
        ) : (
          <Button component={Link} to={blocker.to} size="xs">
            {blocker.step}
          </Button>
        )}
      </Group>
    </Paper>
  );
}

/** What does not stop earning, and wants a look. */
function Watch({ me }: { me: Account }) {
  const open = (me.penalties ?? []).filter((penalty) => penalty.state === 'proposed');
  const notes: { id: string; text: React.ReactNode }[] = [];
  // The warning of a rejected account stands among what blocks it.
  if (me.warning !== '' && me.status !== 'rejected') notes.push({ id: 'warning', text: me.warning });
  for (const penalty of open) {
    notes.push({
      id: penalty.penalty_id,
      text: (
        <>
          A penalty on {penalty.model_id} can be appealed until <Moment at={penalty.appeal_until} withAge />.{' '}
          <Anchor component={Link} to="/provider/penalties" inherit>
            See it
          </Anchor>
        </>
      ),
    });
  }
  if (me.beneficiary.address === '') {
    notes.push({
      id: 'beneficiary',
      text: (
        <>
          No beneficiary address is set, so nothing can be paid out.{' '}
          <Anchor component={Link} to="/provider/settings" inherit>
            Set one
          </Anchor>
        </>
      ),
    });
  }
  if (me.earnings?.blocked === true) {
    notes.push({
      id: 'blocked',
      text: 'Your lines of earnings are being looked at: nothing joins a daily batch until that is over.',
    });
  }
  if (notes.length === 0) return null;
  return (
    <Section title="Worth a look">
      <List size="sm" spacing="xs">
        {notes.map((note) => (
          <List.Item key={note.id} className="breakable">
            {note.text}
          </List.Item>
        ))}
      </List>
    </Section>
  );
}

function Holds({ me }: { me: Account }) {
  const yes = (holds: boolean, word: string, without: string) => (
    <State tone={holds ? 'good' : 'warning'}>{holds ? word : without}</State>
  );
  return (
    <Section title="What your status rests on" note="You become active, and stay so, while the first three hold.">
      <Facts
        facts={[
          ['Collateral', yes(me.collateral.confirmed, 'confirmed', 'not confirmed')],
          [
            'Machine',
            me.gpu.waived ? (
              <State tone="good">rule waived by an operator</State>
            ) : (
              yes(me.gpu.eligible, 'fulfils the GPU rule', 'missing')
            ),
          ],
          [
            'Benchmark',
            <>
              {yes(me.benchmark.passed, 'passed', 'not passed')}{' '}
              {me.benchmark.expires_at !== null && (
                <>
                  counts until <Moment at={me.benchmark.expires_at} withAge />
                </>
              )}
            </>,
          ],
          [
            'Probation',
            me.probation_ends_at === null ? (
              'none now'
            ) : (
              <>
                until <Moment at={me.probation_ends_at} withAge />; stay connected for at least half of it
              </>
            ),
          ],
          ['Uptime in 24 hours', percent(me.uptime_24h, 2)],
          ['Uptime in 30 days', percent(me.uptime_30d, 2)],
          ['Name', me.name],
          ['Provider id', <Id value={me.provider_id} what="provider id" />],
        ]}
      />
    </Section>
  );
}
