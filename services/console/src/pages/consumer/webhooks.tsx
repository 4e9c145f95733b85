import { Button, Drawer, Modal, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { Form, useForm } from '../../ui/form';
import { CodeBlock } from '../../ui/code';
import { Empty, Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { useWebhooks, webhooksKey } from './queries';
import { ShownOnce } from './secret';
import { WebhookDetails } from './webhook-details';
import { KindInputs } from './webhook-kinds';
import { webhookKinds, webhookState } from './webhook-words';

type Webhook = Schemas['Webhook'];

export default function Webhooks() {
  const queries = useQueryClient();
  const webhooks = useWebhooks();
  const [filters, setFilters] = useFilters({ webhook: '' });
  const [making, setMaking] = useState(false);
  const [secret, setSecret] = useState('');
  const opened = webhooks.data?.list.find((webhook) => webhook.webhook_id === filters.webhook);
  const close = () => setFilters({ webhook: '' });
  function onSecret(text: string) {
    setMaking(false);
    setSecret(text);
    void queries.invalidateQueries({ queryKey: webhooksKey });
  }
  return (
    <Page
      title="Webhooks"
      lead={
        <>
          The service can tell your own server what happens to the account: a low balance, a confirmed payout, a change
          of your provider's status, a penalty.
        </>
      }
      actions={
        <Button size="xs" onClick={() => setMaking(true)}>
          Add a webhook
        </Button>
      }
    >
      <Section
        title="Your webhooks"
        json={webhooks.data}
        note="An event is sent up to 5 times over 24 hours, until the server answers with a status from 200 to 299."
      >
        <Loaded query={webhooks}>
          {(data) => (
            <DataTable
              caption="Webhooks"
              columns={columns}
              rows={data.list}
              id={(webhook) => webhook.webhook_id}
              empty="There is no webhook. Add one, then send a test to it."
              onOpen={(webhook) => setFilters({ webhook: webhook.webhook_id })}
            />
          )}
        </Loaded>
      </Section>
      <Verify />
      <Modal
        opened={making}
        onClose={() => setMaking(false)}
        title="Add a webhook"
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        {making && <NewWebhook onMade={onSecret} />}
      </Modal>
      <Drawer
        opened={filters.webhook !== ''}
        onClose={close}
        position="right"
        size="lg"
        title="Webhook"
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        {opened !== undefined && (
          <WebhookDetails key={opened.webhook_id} webhook={opened} onSecret={onSecret} onDeleted={close} />
        )}
        {opened === undefined && webhooks.data !== undefined && (
          <Empty>There is no such webhook in this account.</Empty>
        )}
      </Drawer>
      <ShownOnce
        secret={secret}
        title="Secret of the webhook"
        note="Your server checks the signature of each event with it."
        onClose={() => setSecret('')}
      />
    </Page>
  );
}

const columns: Column<Webhook>[] = [
  { name: 'Address', cell: (webhook) => <span className="breakable">{webhook.url}</span> },
  { name: 'Description', cell: (webhook) => <span className="breakable">{webhook.description || '–'}</span> },
  { name: 'State', cell: (webhook) => <State tone={webhookState(webhook).tone}>{webhookState(webhook).word}</State> },
  { name: 'Events', cell: (webhook) => webhook.kinds.join(', ') },
  { name: 'Made', cell: (webhook) => <Moment at={webhook.created_at} /> },
  { name: 'Id', wideOnly: true, cell: (webhook) => <Id value={webhook.webhook_id} what="webhook id" /> },
];

function NewWebhook({ onMade }: { onMade: (secret: string) => void }) {
  const [url, setUrl] = useState('');
  const [description, setDescription] = useState('');
  const [kinds, setKinds] = useState(webhookKinds.map((kind) => kind.value));
  const form = useForm(
    () =>
      answer(
        api.POST('/api/v1/user/me/webhooks', { body: { url: url.trim(), description: description.trim(), kinds } }),
      ),
    (made) => onMade(made.secret),
  );
  return (
    <Form form={form} label="Add the webhook" params={['url', 'description', 'kinds']}>
      <TextInput
        label="Address"
        description="https, with a public host and port 443 or 8443."
        placeholder="https://example.com/events"
        type="url"
        value={url}
        onChange={(event) => setUrl(event.currentTarget.value)}
        error={form.of('url')}
      />
      <TextInput
        label="Description"
        description="For you."
        maxLength={200}
        value={description}
        onChange={(event) => setDescription(event.currentTarget.value)}
        error={form.of('description')}
      />
      <KindInputs kinds={kinds} onChange={setKinds} error={form.of('kinds')} />
    </Form>
  );
}

const code = `import hashlib, hmac, time

def is_good(body: bytes, header: str, secret: str) -> bool:
    parts = [part.split("=", 1) for part in header.split(",")]
    at = next(value for name, value in parts if name == "t")
    want = hmac.new(secret.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
    signed = any(name == "v1" and hmac.compare_digest(value, want) for name, value in parts)
    return signed and abs(time.time() - int(at)) < 300
`;

function Verify() {
  return (
    <Section
      title="Check the signature"
      note={
        <>
          Each event is a POST of JSON with id, type, created_at and data. Its header X-Svc-Signature has the time and
          one signature for each secret that counts. An event may come twice, so pass over ids that you have seen.
        </>
      }
    >
      <CodeBlock code={code} label="Check of a signature in Python" />
    </Section>
  );
}
