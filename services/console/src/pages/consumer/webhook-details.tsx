// One webhook: its settings, its secret, and what was sent to it.

import { Button, Checkbox, Group, Stack, Text, TextInput, Title } from '@mantine/core';
import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { count } from '../../format/quantity';
import { Confirm } from '../../ui/confirm';
import { Form, useForm } from '../../ui/form';
import { JsonView } from '../../ui/json';
import { Failure, Loaded } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { webhooksKey } from './queries';
import { KindInputs } from './webhook-kinds';
import { deliveryTones, problemText, webhookKinds, webhookState } from './webhook-words';

type Webhook = Schemas['Webhook'];
type Delivery = Schemas['WebhookDelivery'];

interface DetailsProps {
  webhook: Webhook;
  onSecret: (secret: string) => void;
  onDeleted: () => void;
}

export function WebhookDetails({ webhook, onSecret, onDeleted }: DetailsProps) {
  const state = webhookState(webhook);
  return (
    <Stack>
      <Group gap="xs" justify="space-between">
        <State tone={state.tone}>{state.word}</State>
        <JsonView value={webhook} title="webhook" />
      </Group>
      <Text size="sm">{state.text}</Text>
      <Facts
        facts={[
          ['Id', <Id value={webhook.webhook_id} what="webhook id" />],
          ['Made', <Moment at={webhook.created_at} />],
          ['Failing since', <Moment at={webhook.failing_since} withAge />],
          ['Events dropped, because too many waited', count(webhook.dropped)],
          ['A former secret signs, too, until', <Moment at={webhook.previous_secret_until} withAge />],
        ]}
      />
      <Change webhook={webhook} />
      <Acts webhook={webhook} onSecret={onSecret} onDeleted={onDeleted} />
      <Deliveries id={webhook.webhook_id} />
    </Stack>
  );
}

function Change({ webhook }: { webhook: Webhook }) {
  const queries = useQueryClient();
  const [url, setUrl] = useState(webhook.url);
  const [description, setDescription] = useState(webhook.description);
  const [kinds, setKinds] = useState(webhook.kinds);
  const [enabled, setEnabled] = useState(webhook.enabled);
  const form = useForm(
    () =>
      answer(
        api.PATCH('/api/v1/user/me/webhooks/{webhook_id}', {
          params: { path: { webhook_id: webhook.webhook_id } },
          // The API takes no kinds for no change, so all of them are named.
          body: {
            url: url.trim(),
            description: description.trim(),
            kinds: kinds.length > 0 ? kinds : webhookKinds.map((kind) => kind.value),
            enabled,
          },
        }),
      ),
    () => void queries.invalidateQueries({ queryKey: webhooksKey }),
  );
  return (
    <Form form={form} label="Save the settings" params={['url', 'description', 'kinds']}>
      <TextInput
        label="Address"
        type="url"
        value={url}
        onChange={(event) => setUrl(event.currentTarget.value)}
        error={form.of('url')}
      />
      <TextInput
        label="Description"
        maxLength={200}
        value={description}
        onChange={(event) => setDescription(event.currentTarget.value)}
        error={form.of('description')}
      />
      <KindInputs kinds={kinds} onChange={setKinds} error={form.of('kinds')} />
      <Checkbox
        label="On"
        description="While it is off it hears nothing, and what happens meanwhile is not told later."
        checked={enabled}
        onChange={(event) => setEnabled(event.currentTarget.checked)}
      />
    </Form>
  );
}

function Acts({ webhook, onSecret, onDeleted }: DetailsProps) {
  const queries = useQueryClient();
  const path = { webhook_id: webhook.webhook_id };
  async function rotate() {
    const rotated = await answer(
      api.POST('/api/v1/user/me/webhooks/{webhook_id}/rotate', { params: { path }, body: {} }),
    );
    onSecret(rotated.secret);
  }
  async function remove() {
    await answer(api.DELETE('/api/v1/user/me/webhooks/{webhook_id}', { params: { path } }));
    await queries.invalidateQueries({ queryKey: webhooksKey });
    onDeleted();
  }
  return (
    <Group justify="flex-end" align="flex-start">
      <TestButton webhook={webhook} />
      <Confirm label="Change the secret" title="Change the secret?" act={rotate} size="sm">
        The new secret is shown once. The old one signs, too, for 24 hours, so put the new one into your server in that
        time.
      </Confirm>
      <Confirm label="Delete" title="Delete the webhook?" act={remove} destructive size="sm">
        Its server hears nothing more, and what waits for it is dropped. It cannot be undone.
      </Confirm>
    </Group>
  );
}

function TestButton({ webhook }: { webhook: Webhook }) {
  const queries = useQueryClient();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  async function test() {
    setBusy(true);
    setError(null);
    try {
      await answer(
        api.POST('/api/v1/user/me/webhooks/{webhook_id}/test', {
          params: { path: { webhook_id: webhook.webhook_id } },
          body: {},
        }),
      );
      await queries.invalidateQueries({ queryKey: deliveriesKey(webhook.webhook_id) });
    } catch (thrown) {
      setError(thrown);
    } finally {
      setBusy(false);
    }
  }
  return (
    <Stack gap="xs">
      <Button variant="default" onClick={() => void test()} loading={busy} disabled={!webhook.enabled}>
        Send a test
      </Button>
      {error !== null && <Failure error={error} />}
    </Stack>
  );
}

function deliveriesKey(id: string) {
  return [...webhooksKey, 'deliveries', id] as const;
}

const columns: Column<Delivery>[] = [
  { name: 'Event', cell: (delivery) => delivery.type },
  {
    name: 'State',
    cell: (delivery) => <State tone={deliveryTones[delivery.state] ?? 'neutral'}>{delivery.state}</State>,
  },
  { name: 'Tries', numeric: true, cell: (delivery) => delivery.attempt },
  { name: 'Status', numeric: true, cell: (delivery) => (delivery.status === 0 ? '–' : delivery.status) },
  { name: 'Problem', cell: (delivery) => problemText(delivery.problem) },
  { name: 'Last try', cell: (delivery) => <Moment at={delivery.tried_at} /> },
  { name: 'Next try', cell: (delivery) => <Moment at={delivery.next_at} withAge /> },
  { name: 'Id', wideOnly: true, cell: (delivery) => <Id value={delivery.event_id} what="event id" /> },
];

const pollMs = 3_000;

function Deliveries({ id }: { id: string }) {
  const deliveries = useInfiniteQuery({
    queryKey: deliveriesKey(id),
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/api/v1/user/me/webhooks/{webhook_id}/deliveries', {
          params: { path: { webhook_id: id }, query: { cursor: pageParam || undefined, limit: 20 } },
        }),
      ),
    getNextPageParam: (page) => page.next_cursor || undefined,
    refetchInterval: ({ state }) =>
      state.data?.pages[0]?.list.some((delivery) => delivery.state === 'waiting') === true ? pollMs : false,
  });
  const list = deliveries.data?.pages.flatMap((page) => page.list) ?? [];
  return (
    <section aria-label="Deliveries">
      <Group justify="space-between">
        <Title order={3} size="h5">
          Deliveries
        </Title>
        <JsonView value={list} title="deliveries" />
      </Group>
      <Loaded query={deliveries}>
        {() => (
          <div aria-live="polite">
            <DataTable
              caption="Deliveries"
              columns={columns}
              rows={list}
              id={(delivery) => delivery.event_id}
              empty="Nothing was sent yet. Send a test."
              more={deliveries.hasNextPage ? () => void deliveries.fetchNextPage() : undefined}
              loadingMore={deliveries.isFetchingNextPage}
            />
          </div>
        )}
      </Loaded>
    </section>
  );
}
