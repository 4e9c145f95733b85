import { Anchor, Button, Stack, Text } from '@mantine/core';
import { Link } from 'react-router';

import { count } from '../../format/quantity';
import { Empty, Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { useAccount, useStatus, type Account, type Status } from './queries';
import { benchmarkStandings, lanes, sentence } from './words';

type Machine = Status['nodes'][number];
type Named = Status['answered_as'][number];
type Model = NonNullable<Account['models']>[number];

export default function ModelsPage() {
  const account = useAccount();
  const status = useStatus();
  return (
    <Page
      title="Models and agents"
      lead={
        <>
          Which machines are connected, and what they offer. Models are set on the machine, in its models.json; the
          agent takes a change up within seconds.
        </>
      }
    >
      <Section
        title="Machines"
        json={status.data?.nodes}
        note={<>One row for each machine that an agent has connected. The newest connection of a machine counts.</>}
      >
        <Loaded query={status}>
          {(own) =>
            own.nodes.length === 0 ? (
              <Empty
                action={
                  <Button component={Link} to="/provider/start" size="xs">
                    Install and run the agent
                  </Button>
                }
              >
                No machine has connected yet.
              </Empty>
            ) : (
              <DataTable
                caption="Machines"
                columns={[
                  ...machineColumns,
                  { name: 'Models', cell: (machine) => <Offered of={machine} at={own.traffic?.nodes} /> },
                ]}
                rows={own.nodes}
                id={(machine) => machine.node_id}
                empty=""
              />
            )
          }
        </Loaded>
      </Section>
      <Section
        title="Models"
        json={account.data?.models}
        note={
          <>
            The window that counts is the smallest of what the machines declare, what the catalog says, and what was
            measured.
          </>
        }
      >
        <Loaded query={account}>{(me) => <Models me={me} />}</Loaded>
      </Section>
      {(status.data?.answered_as.length ?? 0) > 0 && <Names list={status.data?.answered_as ?? []} />}
    </Page>
  );
}

const machineColumns: Column<Machine>[] = [
  {
    name: 'Machine',
    cell: (machine) => (
      <span className="breakable">{machine.node_name === '' ? 'without a name' : machine.node_name}</span>
    ),
  },
  {
    name: 'State',
    cell: (machine) =>
      machine.online ? <State tone="good">connected</State> : <State tone="warning">not connected</State>,
  },
  { name: 'Last seen', cell: (machine) => <Moment at={machine.last_seen_at} withAge /> },
  { name: 'GPU', cell: gpu },
  {
    name: 'GPU rule',
    cell: (machine) =>
      machine.gpu_eligible ? <State tone="good">fulfilled</State> : <State tone="warning">not fulfilled</State>,
  },
  { name: 'Engine', cell: (machine) => (machine.engine === '' ? 'not known' : machine.engine) },
  {
    name: 'Agent',
    cell: (machine) =>
      `${machine.agent_version === '' ? 'version not known' : machine.agent_version}, protocol ${machine.dialect}`,
  },
  { name: 'Id', wideOnly: true, cell: (machine) => <Id value={machine.node_id} what="machine id" /> },
];

type AtRouter = NonNullable<Status['traffic']>['nodes'];

/** What a machine offers now, as the router knows it. */
function Offered({ of: machine, at: nodes }: { of: Machine; at: AtRouter | undefined }) {
  if (!machine.online) return <>–</>;
  const offers = nodes?.find((node) => node.node_id === machine.node_id)?.models;
  if (nodes === undefined || offers === undefined) return <>not known</>;
  if (offers.length === 0) return <>none</>;
  return (
    <>
      {offers.map((offer) => (
        <Text key={offer.model_id} size="sm" className="breakable">
          {offer.model_id}: {count(offer.in_flight)} of {count(offer.capacity)} under way
          {!offer.serving && ', does not serve now'}
        </Text>
      ))}
    </>
  );
}

function gpu(machine: Machine): string {
  if (machine.gpu_model === '' && machine.gpu_count === 0) return 'none reported';
  const parts = [
    `${machine.gpu_count > 1 ? `${machine.gpu_count} × ` : ''}${machine.gpu_model === '' ? 'GPU' : machine.gpu_model}`,
  ];
  if (machine.vram_gb > 0) parts.push(`${machine.vram_gb} GB`);
  if (machine.compute_capability !== '') parts.push(`compute capability ${machine.compute_capability}`);
  return parts.join(', ');
}

const modelColumns: Column<Model>[] = [
  {
    name: 'Model',
    cell: (model) => (
      <Anchor component={Link} to={`/models/${model.model_id}`} className="breakable" inherit>
        {model.model_id}
      </Anchor>
    ),
  },
  {
    name: 'Gets',
    cell: (model) => <State tone={lanes[model.lane]?.tone ?? 'neutral'}>{lanes[model.lane]?.word ?? model.lane}</State>,
  },
  { name: 'Trust', cell: (model) => (model.trust === '' ? 'not connected' : model.trust) },
  {
    name: 'Benchmark',
    cell: (model) => (
      <>
        <State tone={benchmarkStandings[model.benchmark]?.tone ?? 'neutral'}>
          {benchmarkStandings[model.benchmark]?.word ?? 'not looked at yet'}
        </State>{' '}
        {model.benchmark_expires_at !== null && <Moment at={model.benchmark_expires_at} />}
      </>
    ),
  },
  { name: 'Declared window', cell: (model) => tokens(model.declared_context_length), numeric: true },
  {
    name: 'Measured window',
    cell: (model) => (model.measured_context_length === 0 ? 'not measured' : tokens(model.measured_context_length)),
    numeric: true,
  },
  { name: 'Window that counts', cell: (model) => tokens(model.context_length), numeric: true },
  { name: 'Next step', cell: (model) => (model.next_step === '' ? '–' : sentence(model.next_step)) },
];

function tokens(n: number): string {
  return n === 0 ? 'not known' : `${count(n)} tokens`;
}

function Models({ me }: { me: Account }) {
  if (me.models === null) return <Text size="sm">{me.notes['models'] ?? 'They cannot be told now.'}</Text>;
  return (
    <DataTable
      caption="Models"
      columns={modelColumns}
      rows={me.models}
      id={(model) => model.model_id}
      empty={
        <>
          No model is offered. Run “svc-agent models” to see what is in demand, and “svc-agent models add” to offer one.
        </>
      }
    />
  );
}

/** The names come from engines: they are shown as plain text. */
function Names({ list }: { list: Named[] }) {
  return (
    <Section
      title="Names that your engines gave"
      json={list}
      note={
        <>
          In the last 7 days an engine called a model otherwise than it was asked for. Answers are billed as any other;
          verification may find that they differ.
        </>
      }
    >
      <Stack gap="xs">
        {list.map((named) => (
          <Text key={`${named.model_id} ${named.answered_as}`} size="sm" className="breakable">
            <strong>{named.model_id}:</strong> {sentence(named.meaning)} {count(named.answers)} answers, the last at{' '}
            <Moment at={named.last_at} />.
          </Text>
        ))}
      </Stack>
    </Section>
  );
}
