import { Button, Group, Stack, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { Empty, Loaded, Page, Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id, Moment, Money } from '../../ui/text';
import { AccountLink } from './links';
import { RequestReceipt } from './request-receipt';

export default function Requests() {
  const [{ id }, setFilters] = useFilters({ id: '' });
  const [typed, setTyped] = useState(id);
  const problem = typed !== '' && !isUuid(typed) ? 'An id such as 01990a1c-5d2e-7c3a-9f00-3b1d6c2a8e41.' : undefined;
  return (
    <Page
      title="Requests and routing"
      lead="What became of a request, who was tried, and why. Every answer has its id in the header X-Svc-Request-ID."
    >
      <Section title="Find a request">
        <form
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            if (isUuid(typed)) setFilters({ id: typed });
          }}
        >
          <Group align="flex-end">
            <TextInput
              label="Id of the request"
              value={typed}
              onChange={(event) => setTyped(event.currentTarget.value.trim().toLowerCase())}
              error={problem}
              autoComplete="off"
              spellCheck={false}
              style={{ flex: '1 1 260px' }}
            />
            <Button type="submit">Show</Button>
          </Group>
        </form>
      </Section>
      {isUuid(id) ? <Found key={id} id={id} /> : <Empty>Paste the id of a request.</Empty>}
    </Page>
  );
}

function isUuid(text: string): boolean {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(text);
}

/** The moment within a UUID of version 7, to the millisecond; null for another id. */
function momentOf(id: string): string | null {
  if (id.charAt(14) !== '7') return null;
  return new Date(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)).toISOString();
}

function Found({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ['admin', 'request', id],
    queryFn: () => answer(api.GET('/api/v1/admin/requests/{request_id}', { params: { path: { request_id: id } } })),
  });
  return (
    <Stack>
      <Section title="The request">
        <Facts
          facts={[
            ['Id', <Id key="id" value={id} what="request id" full />],
            ['Made', <Moment key="made" at={momentOf(id)} withAge />],
          ]}
        />
      </Section>
      <Loaded query={query}>
        {(found) => (
          <>
            <Owner found={found} />
            {found.receipt !== null && <RequestReceipt receipt={found.receipt} />}
          </>
        )}
      </Loaded>
    </Stack>
  );
}

const refunds: Record<string, string> = {
  request_refund: 'at the provider’s expense',
  goodwill_refund: 'at the platform’s expense',
  broken_answer: 'because the answer broke off',
};

/** Whose request it was, and what was given back of it. */
function Owner({ found }: { found: Schemas['GetRequestResponse'] }) {
  const { refund } = found;
  return (
    <Section title="Account and refund" json={found} note="A request is refunded on the page of its account.">
      <Facts
        facts={[
          ['Account', <AccountLink key="account" id={found.account_id} />],
          ['Key', <Id key="key" value={found.key_id} what="key id" />],
          ['Shown of the key', found.key_prefix],
          ...(refund === null
            ? ([['Given back', 'nothing']] satisfies [string, ReactNode][])
            : ([
                ['Given back', <Money key="refund" usd={refund.amount_usd_str} />],
                ['How', refunds[refund.kind] ?? refund.kind],
                ['When', <Moment key="when" at={refund.at} withAge />],
                ['Note', refund.memo === '' ? '–' : refund.memo],
                ['Entry', <Id key="entry" value={refund.entry_id} what="entry id" />],
              ] satisfies [string, ReactNode][])),
        ]}
      />
    </Section>
  );
}
