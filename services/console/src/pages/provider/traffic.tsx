import { Anchor, SimpleGrid, Text } from '@mantine/core';
import { Link } from 'react-router';

import { count, percent } from '../../format/quantity';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment, State, type Tone } from '../../ui/text';
import { Quality } from './quality';
import { useStatus, type Status } from './queries';
import { lanes, withoutRoutes } from './words';

type Traffic = NonNullable<Status['traffic']>;
type Reject = Traffic['rejects'][number];
type Model = Traffic['models'][number];

export default function TrafficPage() {
  const status = useStatus();
  return (
    <Page
      title="Traffic"
      lead={
        <>
          Why requests come to you or do not, from the router’s own counters. For each request the router compares the
          providers of the model. It takes one, and counts why it passed the others over.
        </>
      }
    >
      <Loaded query={status}>
        {(own) => (
          <>
            <Figures of={own} />
            {own.traffic === undefined ? (
              <Section title="The router does not answer now">
                <Text size="sm">What it counted cannot be told. It is asked again every half minute.</Text>
              </Section>
            ) : (
              <>
                <Passed traffic={own.traffic} />
                <Models traffic={own.traffic} />
                <Quality models={own.traffic.models} />
              </>
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Figures({ of: own }: { of: Status }) {
  const models = own.traffic?.models ?? [];
  const chosen = models.reduce((sum, model) => sum + model.chosen, 0);
  const flying = models.reduce((sum, model) => sum + model.in_flight, 0);
  const capacity = models.reduce((sum, model) => sum + model.capacity, 0);
  return (
    <SimpleGrid cols={{ base: 1, xs: 2, lg: 4 }} aria-live="polite">
      {own.traffic !== undefined && (
        <>
          <Figure
            label="Chosen"
            note={
              <>
                requests, since <Moment at={own.traffic.since} withAge />
              </>
            }
          >
            {count(chosen)}
          </Figure>
          <Figure label="Under way" note={`of ${count(capacity)} at once`}>
            {count(flying)}
          </Figure>
        </>
      )}
      <Figure label="Uptime in 24 hours" note="Time with a machine connected">
        {percent(own.uptime_24h, 2)}
      </Figure>
      <Figure
        label="Uptime in 30 days"
        note={own.online ? 'A machine is connected now' : 'No machine is connected now'}
      >
        {percent(own.uptime_30d, 2)}
      </Figure>
    </SimpleGrid>
  );
}

/** Where the next step for a reason is. */
const steps: Record<string, { to: string; label: string }> = {
  not_active: { to: '/provider', label: 'See what blocks you' },
  not_offered: { to: '/provider/models', label: 'See your models' },
  unhealthy: { to: '/provider/models', label: 'See your machines' },
  window_too_small: { to: '/provider/models', label: 'See your windows' },
  not_verified: { to: '/provider/verification', label: 'See verification' },
  degraded: { to: '/provider/verification', label: 'See verification' },
};

/** What can be done about a reason on the machine. */
const advice: Record<string, string> = {
  draining: 'Start the agent again when the machine is back.',
  body_too_large: 'An agent of the newest version takes larger requests.',
  capability_missing: 'Declare what the engine can do: -capabilities of svc-agent run.',
  full: 'Raise capacity in models.json if the engine can do more at once.',
  second_tier: 'Run the agent to be asked first.',
  not_wanted: 'State the quantization in models.json. Who names other providers is out of reach.',
  already_failed: 'Look at the agent’s log: it names the failure.',
  breaker_open: 'Look at the agent’s log. The breaker closes by itself once a request is served.',
};

const rejectColumns: Column<Reject>[] = [
  { name: 'Reason', cell: (reject) => reject.reason.replaceAll('_', ' ') },
  { name: 'Times', cell: (reject) => count(reject.count), numeric: true },
  { name: 'What it means', cell: (reject) => withoutRoutes(reject.meaning) },
  {
    name: 'What to do',
    cell: (reject) => {
      const step = steps[reject.reason];
      if (step === undefined) return advice[reject.reason] ?? '–';
      return (
        <Anchor component={Link} to={step.to} inherit>
          {step.label}
        </Anchor>
      );
    },
  },
];

function Passed({ traffic }: { traffic: Traffic }) {
  return (
    <Section
      title="Why you were passed over"
      json={traffic}
      note={
        <>
          Counted by one router since it started, <Moment at={traffic.since} withAge />. A restart of the router begins
          at zero. Being passed over costs you nothing but the request.
        </>
      }
    >
      <DataTable
        caption="Why you were passed over, the most frequent first"
        columns={rejectColumns}
        rows={traffic.rejects}
        id={(reject) => reject.reason}
        empty={
          <>
            You were never passed over. Where no request comes all the same, nobody asks for your models: see the demand
            for others.
          </>
        }
      />
    </Section>
  );
}

const breakers: Record<string, { word: string; tone: Tone }> = {
  closed: { word: 'closed', tone: 'good' },
  half_open: { word: 'half open', tone: 'warning' },
  open: { word: 'open', tone: 'bad' },
};

const modelColumns: Column<Model>[] = [
  {
    name: 'Model',
    cell: (model) => (
      <Anchor component={Link} to={`/models/${model.model_id}`} className="breakable" inherit>
        {model.model_id}
      </Anchor>
    ),
  },
  { name: 'Chosen', cell: (model) => count(model.chosen), numeric: true },
  { name: 'Under way', cell: (model) => `${count(model.in_flight)} of ${count(model.capacity)}`, numeric: true },
  {
    name: 'Machines ready',
    cell: (model) => `${count(model.available_nodes)} of ${count(model.nodes)}`,
    numeric: true,
  },
  {
    name: 'Breaker',
    cell: (model) => (
      <State tone={breakers[model.breaker]?.tone ?? 'neutral'}>{breakers[model.breaker]?.word ?? model.breaker}</State>
    ),
  },
  {
    name: 'Gets',
    cell: (model) => <State tone={lanes[model.lane]?.tone ?? 'neutral'}>{lanes[model.lane]?.word ?? model.lane}</State>,
  },
  {
    name: 'Window',
    cell: (model) => (model.context_length === 0 ? 'not known' : `${count(model.context_length)} tokens`),
    numeric: true,
  },
];

function Models({ traffic }: { traffic: Traffic }) {
  const notes = traffic.models.filter((model) => model.verification !== '');
  return (
    <Section
      title="Your models at the router"
      json={traffic.models}
      note={
        <>
          Breaker closed: requests come. Open: failures came one after the other, so the model rests, 10 s at first and
          at most 5 minutes. Half open: one request tries, and closes the breaker if it is served.
        </>
      }
    >
      <DataTable
        caption="Your models at the router"
        columns={modelColumns}
        rows={traffic.models}
        id={(model) => model.model_id}
        empty="The router knows no model of yours: no machine with a model is connected. Start the agent."
      />
      {notes.map((model) => (
        <Text key={model.model_id} size="sm" mt="xs" className="breakable">
          <strong>{model.model_id}:</strong> {withoutRoutes(model.verification.replace(/^not_verified: /, ''))}
        </Text>
      ))}
    </Section>
  );
}
