import { Anchor, List, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { asApiError } from '../../api/error';
import { Page, Section } from '../../ui/page';
import { DataTable } from '../../ui/table';
import { Moment, State } from '../../ui/text';
import { Breakers, Hubs, serviceWords, Streams } from './health-parts';

const every = 10_000;

/** What one question to the platform came to. */
interface Asked {
  name: string;
  good: boolean;
  word: string;
  text: string;
}

export default function Health() {
  const gateway = useQuery({ queryKey: ['admin', 'health', 'gateway'], queryFn: askGateway, refetchInterval: every });
  const services = useQuery({
    queryKey: ['admin', 'health', 'services'],
    queryFn: askServices,
    refetchInterval: every,
  });
  const health = services.data?.health ?? undefined;
  const asked = [...(gateway.data?.asked ?? []), ...(services.data?.asked ?? [])];
  const bad = asked.filter((one) => !one.good);
  return (
    <Page
      title="Health"
      lead="Whether requests can be served, as this gateway sees it. The figures are renewed every 10 seconds."
    >
      <Section title="Now">
        <Text component="div" aria-live="polite">
          {asked.length === 0 ? (
            'Asking …'
          ) : (
            <>
              <State tone={bad.length === 0 ? 'good' : 'bad'}>{bad.length === 0 ? 'all answer' : 'trouble'}</State>{' '}
              {bad.length === 0
                ? 'The gateway serves, and every service that operators act on answers.'
                : bad.map((one) => one.name).join(', ')}
            </>
          )}
        </Text>
      </Section>
      <Section
        title="Gateway"
        json={gateway.data}
        note="Ready: it knows the models, and reaches the services that admit and route."
      >
        <Answers caption="The gateway" asked={gateway.data?.asked ?? []} at={gateway.dataUpdatedAt} />
      </Section>
      <Section
        title="Services"
        json={health?.services}
        note="Each is asked for something out of its database. One that does not answer within three seconds counts as away."
      >
        <Answers caption="The services" asked={services.data?.asked ?? []} at={services.dataUpdatedAt} />
      </Section>
      <Breakers health={health} />
      <Hubs health={health} />
      <Streams health={health} />
      <Section title="Look further">
        <List size="sm">
          <To to="/chains">Chains, halts and reserves: whether deposits are read and payouts sent</To>
          <To to="/verification?tab=effects">What verdicts brought about and another service refused</To>
          <To to="/endpoints?state=unhealthy">External endpoints that are unhealthy</To>
          <To to="/catalog?state=nobody+online">Models that nobody serves now</To>
        </List>
      </Section>
    </Page>
  );
}

function To({ to, children }: { to: string; children: string }) {
  return (
    <List.Item>
      <Anchor component={Link} to={to} inherit>
        {children}
      </Anchor>
    </List.Item>
  );
}

function Answers({ caption, asked, at }: { caption: string; asked: Asked[]; at: number }) {
  return (
    <>
      <DataTable
        caption={caption}
        columns={[
          { name: 'Asked', cell: (one) => one.name },
          { name: 'Answer', cell: (one) => <State tone={one.good ? 'good' : 'bad'}>{one.word}</State> },
          { name: 'In words', cell: (one) => <span className="breakable">{one.text || '–'}</span> },
        ]}
        rows={asked}
        id={(one) => one.name}
        empty="Asking …"
      />
      {at > 0 && (
        <Text size="sm" c="var(--muted)">
          Asked <Moment at={new Date(at).toISOString()} withAge />
        </Text>
      )}
    </>
  );
}

async function askGateway(): Promise<{ asked: Asked[] }> {
  return {
    asked: await Promise.all([
      ask('Alive (/healthz)', () => answer(api.GET('/healthz'))),
      ask('Ready (/readyz)', () => answer(api.GET('/readyz'))),
    ]),
  };
}

async function ask(name: string, call: () => Promise<{ status: string }>): Promise<Asked> {
  try {
    return { name, good: true, word: (await call()).status, text: '' };
  } catch (thrown) {
    const failed = asApiError(thrown);
    return { name, good: false, word: failed.status === 0 ? 'no answer' : 'no', text: failed.message };
  }
}

async function askServices(): Promise<{ asked: Asked[]; health: Schemas['GetHealthResponse'] | null }> {
  try {
    const health = await answer(api.GET('/api/v1/admin/health'));
    return { asked: health.services.map(service), health };
  } catch (thrown) {
    return {
      asked: [{ name: 'The services', good: false, word: 'not known', text: asApiError(thrown).message }],
      health: null,
    };
  }
}

function service(one: Schemas['ServiceHealth']): Asked {
  return {
    name: one.service,
    good: one.answers,
    word: one.answers ? 'answers' : 'does not answer',
    text: serviceWords(one),
  };
}
