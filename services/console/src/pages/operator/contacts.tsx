// Messages by which accounts ask for enterprise terms. They are text of strangers and are shown as text.

import { Button, Group, Paper, Select, Stack, Text } from '@mantine/core';

import { answer, api, type Schemas } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { Empty, Loaded, Page, Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Copy, Moment, State } from '../../ui/text';
import { Act } from './act';
import { needs } from './allowed';
import { operatorName } from './history';
import { AccountLink } from './links';
import { useCursorList, useDone } from './lists';

type Contact = Schemas['EnterpriseContact'];

export default function Contacts() {
  const [filters, setFilters] = useFilters({ state: 'open' });
  const { query, pages, more, loadingMore } = useCursorList(['admin', 'contacts', filters.state], (cursor) =>
    answer(
      api.GET('/api/v1/admin/enterprise-contacts', {
        params: { query: { state: filters.state === 'all' ? '' : filters.state, page_size: 50, cursor } },
      }),
    ),
  );
  const contacts = pages.flatMap((page) => page.list);
  return (
    <Page
      title="Enterprise contacts"
      lead={
        'Accounts ask for terms here. Answer by e-mail, agree terms on the page of the account, and mark the message ' +
        'as answered.'
      }
    >
      <Section
        title="Messages"
        json={query.data?.pages}
        actions={
          <Select
            size="xs"
            label="State"
            value={filters.state}
            onChange={(value) => setFilters({ state: value ?? 'open' })}
            allowDeselect={false}
            data={['open', 'answered', 'all']}
          />
        }
      >
        <Loaded query={query}>
          {() =>
            contacts.length === 0 ? (
              <Empty>No message is in this state.</Empty>
            ) : (
              <Stack>
                {contacts.map((contact) => (
                  <Message key={contact.contact_id} contact={contact} />
                ))}
                {more !== undefined && (
                  <Group justify="flex-end">
                    <Button size="xs" variant="default" onClick={more} loading={loadingMore}>
                      Show more
                    </Button>
                  </Group>
                )}
              </Stack>
            )
          }
        </Loaded>
      </Section>
    </Page>
  );
}

function Message({ contact }: { contact: Contact }) {
  const done = useDone();
  const open = contact.state === 'open';
  return (
    <Paper withBorder p="sm" radius="md" component="article" aria-label={`Message of ${contact.created_at ?? ''}`}>
      <Stack gap="sm">
        <Facts
          facts={[
            ['State', <State tone={open ? 'warning' : 'good'}>{contact.state}</State>],
            ['Account', <AccountLink id={contact.account_id} />],
            ['E-mail address', <Address email={contact.email} />],
            ['Company', <bdi className="breakable">{contact.company || '–'}</bdi>],
            ['Sent', <Moment at={contact.created_at} withAge />],
            ...(open ? [] : [['Answered', <Answered contact={contact} />] as [string, React.ReactNode]]),
          ]}
        />
        <Text component="div" dir="auto" className="breakable" style={{ whiteSpace: 'pre-wrap' }}>
          {contact.message}
        </Text>
        {open && (
          <Group>
            <Act
              label="Mark as answered"
              title="Mark this message as answered?"
              permission={needs['POST /api/v1/admin/enterprise-contacts/{contact_id}/answer']}
              reason="How it was answered, in 1 to 200 characters, for the audit log."
              run={({ reason }) =>
                answer(
                  api.POST('/api/v1/admin/enterprise-contacts/{contact_id}/answer', {
                    params: { path: { contact_id: contact.contact_id } },
                    body: { note: reason },
                  }),
                )
              }
              done={() => done('The message is marked as answered.')}
            >
              This sends nothing: write to the e-mail address first. It cannot be undone.
            </Act>
          </Group>
        )}
      </Stack>
    </Paper>
  );
}

function Address({ email }: { email: string }) {
  if (email === '') return <>not confirmed any more</>;
  return (
    <Group component="span" gap={2} display="inline-flex">
      <span className="breakable">{email}</span>
      <Copy value={email} what="e-mail address" />
    </Group>
  );
}

function Answered({ contact }: { contact: Contact }) {
  return (
    <>
      <Moment at={contact.answered_at} withAge /> by {operatorName(contact.answered_by)}
    </>
  );
}
