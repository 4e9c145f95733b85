import { Alert, Button, Group, Stack, Text } from '@mantine/core';
import { useState } from 'react';

import { answer, api } from '../../api/client';
import { count } from '../../format/quantity';
import { Confirm } from '../../ui/confirm';
import { Empty, Failure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment, State, type Tone } from '../../ui/text';
import { EndpointForm } from './endpoint-form';
import { useChanged, useEndpoints, type Endpoint } from './queries';

export default function Endpoints() {
  const query = useEndpoints();
  const list = query.data?.pages.flatMap((page) => page.list) ?? [];
  return (
    <Page
      title="External endpoints"
      lead={
        <>
          Serve without an agent: the marketplace calls an OpenAI-compatible server of yours. It is asked after
          providers whose agents are connected, so it gets what they cannot take. Pins to you reach it at once.
        </>
      }
      actions={<EndpointForm />}
    >
      <Loaded query={query}>
        {() =>
          list.length === 0 ? (
            <Section title="No endpoints">
              <Empty action={<EndpointForm />}>
                You have registered no server. An agent on your machine earns more often.
              </Empty>
            </Section>
          ) : (
            <>
              {list.map((endpoint) => (
                <One key={endpoint.endpoint_id} of={endpoint} />
              ))}
              {query.hasNextPage && (
                <Button variant="default" onClick={() => void query.fetchNextPage()} loading={query.isFetchingNextPage}>
                  Show more
                </Button>
              )}
            </>
          )
        }
      </Loaded>
    </Page>
  );
}

const tones: Record<Endpoint['state'], Tone> = { new: 'busy', healthy: 'good', unhealthy: 'bad' };

/** What a failed probe means, and what mends it. */
const errors: Record<Endpoint['last_error'], string> = {
  '': '',
  unreachable: 'The server did not answer. Check its address, certificate and firewall.',
  unauthorized: 'The server refused the key. Give the right one.',
  unexpected_status: 'The server answered its list of models with an error.',
  unexpected_answer: 'The server’s list of models is none. Give the address above /models.',
  models_missing: 'The server’s list has none of the models. Check the names on the server.',
  key_unreadable: 'The key can no longer be read here. Give it anew.',
  origin_taken: 'Another provider serves from this scheme, host and port. Ask the operators.',
  requests_failing: 'The list of models is good, and eight requests in a row failed. Look at the server’s log.',
};

function One({ of: endpoint }: { of: Endpoint }) {
  const [found, setFound] = useState<Endpoint | null>(null);
  return (
    <Section
      title={endpoint.name}
      json={endpoint}
      actions={
        <State tone={tones[endpoint.state]}>{endpoint.state === 'new' ? 'not probed yet' : endpoint.state}</State>
      }
    >
      <Stack gap="md">
        <div aria-live="polite">
          {endpoint.disabled_at !== null && (
            <Alert color="red" variant="light" title="An operator keeps it out of service">
              <Text size="sm" className="breakable">
                Since <Moment at={endpoint.disabled_at} />
                {endpoint.disabled_reason === '' ? '.' : `: ${endpoint.disabled_reason}`}
              </Text>
            </Alert>
          )}
          {endpoint.last_error !== '' && <Text>{errors[endpoint.last_error]}</Text>}
          {found !== null && (
            <Alert
              color={found.state === 'healthy' ? 'teal' : 'red'}
              variant="light"
              title={found.state === 'healthy' ? 'The server answers' : 'The check failed'}
              mt="xs"
            >
              <Text size="sm">
                {found.last_error === '' ? '' : `${errors[found.last_error]} `}
                What a check finds is not kept: the marketplace probes the server every 30 seconds by itself.
              </Text>
            </Alert>
          )}
        </div>
        <Facts
          facts={[
            ['Address', <span className="breakable">{endpoint.base_url}</span>],
            ['Key', endpoint.has_key ? 'kept encrypted, for this scheme, host and port alone' : 'none'],
            ['In service', endpoint.served ? 'yes, the marketplace calls it' : 'no'],
            ['Probed', <Moment at={endpoint.checked_at} withAge />],
            ['Registered', <Moment at={endpoint.created_at} />],
            ['Endpoint id', <Id value={endpoint.endpoint_id} what="endpoint id" />],
          ]}
        />
        <DataTable
          caption={`Models of ${endpoint.name}`}
          columns={columns}
          rows={endpoint.models}
          id={(model) => model.model_id}
          empty="It has no model. Change it and add one."
        />
        <Actions of={endpoint} onFound={setFound} />
      </Stack>
    </Section>
  );
}

const columns: Column<Endpoint['models'][number]>[] = [
  { name: 'Model', cell: (model) => <span className="breakable">{model.model_id}</span> },
  { name: 'Name on the server', cell: (model) => <span className="breakable">{model.local_model}</span> },
  {
    name: 'Listed there',
    cell: (model) => (model.listed ? <State tone="good">yes</State> : <State tone="warning">no</State>),
  },
  {
    name: 'Window',
    cell: (model) => (model.context_length === 0 ? 'not said' : `${count(model.context_length)} tokens`),
    numeric: true,
  },
  { name: 'At once', cell: (model) => (model.capacity === 0 ? '8' : count(model.capacity)), numeric: true },
  { name: 'Quantization', cell: (model) => (model.quantization === '' ? 'not said' : model.quantization) },
  { name: 'Can do', cell: (model) => model.capabilities.join(', ') },
];

function Actions({ of: endpoint, onFound }: { of: Endpoint; onFound: (found: Endpoint) => void }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const changed = useChanged();
  const path = { endpoint_id: endpoint.endpoint_id };

  async function check() {
    setBusy(true);
    setError(null);
    try {
      onFound(await answer(api.POST('/api/v1/provider/external-endpoints/{endpoint_id}/check', { params: { path } })));
    } catch (thrown) {
      setError(thrown);
    } finally {
      setBusy(false);
    }
  }

  return (
    <>
      <Group gap="xs">
        <Button size="xs" variant="default" loading={busy} onClick={() => void check()}>
          Check it now
        </Button>
        <EndpointForm of={endpoint} />
        <Confirm
          label="Delete"
          title={`Delete “${endpoint.name}”?`}
          destructive
          act={async () => {
            await answer(api.DELETE('/api/v1/provider/external-endpoints/{endpoint_id}', { params: { path } }));
            await changed();
          }}
        >
          The marketplace calls the server no more and forgets its key. Requests under way end as they began. What it
          earned stays yours.
        </Confirm>
      </Group>
      {error !== null && <Failure error={error} title="The server was not checked" />}
    </>
  );
}
