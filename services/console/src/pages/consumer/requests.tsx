import { Button, Group, TextInput } from '@mantine/core';
import { useState, type FormEvent } from 'react';
import { useNavigate } from 'react-router';

import { answer, api } from '../../api/client';
import { CsvButton } from '../../ui/download';
import { useFilters } from '../../ui/filters';
import { Loaded, Page, Section } from '../../ui/page';
import { Moment } from '../../ui/text';
import { RequestFilters } from './period';
import { given, useKeys, useUsedRequests } from './queries';
import { RequestTable } from './request-table';

export default function Requests() {
  const [filters, setFilters] = useFilters({ from: '', to: '', key: '', model: '' });
  const requests = useUsedRequests(filters);
  const keys = useKeys(true).data?.list ?? [];
  const list = requests.data?.pages.flatMap((page) => page.requests) ?? [];
  return (
    <Page
      title="Requests"
      lead={
        <>
          Every settled request, the newest first. Each opens its receipt: who served it, how it was routed, and how its
          cost comes about.
        </>
      }
    >
      <Find />
      <Section
        title="Settled requests"
        json={list}
        note={
          <>
            A request appears some seconds after its answer ended. The list is complete up to{' '}
            <Moment at={requests.data?.pages[0]?.as_of} />.
          </>
        }
      >
        <Group justify="space-between" align="flex-end">
          <RequestFilters filter={filters} onChange={setFilters} />
          <CsvButton
            name="requests.csv"
            load={() =>
              answer(api.GET('/api/v1/consumer/usage.csv', { params: { query: given(filters) }, parseAs: 'stream' }))
            }
          />
        </Group>
        <Loaded query={requests}>
          {() => (
            <RequestTable
              requests={list}
              keyName={(id) => keys.find((key) => key.key_id === id)?.name || `…${id.slice(-6)}`}
              empty="No request was settled in these days. Send one with the quick start, or choose other days."
              more={requests.hasNextPage ? () => void requests.fetchNextPage() : undefined}
              loadingMore={requests.isFetchingNextPage}
            />
          )}
        </Loaded>
      </Section>
    </Page>
  );
}

/** Opens a receipt by its request's id, also of a request that is not settled. */
function Find() {
  const navigate = useNavigate();
  const [id, setId] = useState('');
  function go(event: FormEvent) {
    event.preventDefault();
    if (id.trim() !== '') void navigate(`/requests/${encodeURIComponent(id.trim())}`);
  }
  return (
    <form onSubmit={go}>
      <Group align="flex-end" gap="xs">
        <TextInput
          label="Request id"
          description="Each answer has it in its header X-Svc-Request-ID."
          flex={1}
          miw={220}
          maw={460}
          value={id}
          onChange={(event) => setId(event.currentTarget.value)}
        />
        <Button type="submit" variant="default">
          Open the receipt
        </Button>
      </Group>
    </form>
  );
}
