import { Drawer, List, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { count } from '../../format/quantity';
import { CodeBlock } from '../../ui/code';
import { useFilters } from '../../ui/filters';
import { Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Money, State } from '../../ui/text';
import { useChainName } from './chains';
import { Statement } from './statement-view';
import { useStatements } from './queries';

type Listed = Schemas['ProviderStatements']['list'][number];

export default function Statements() {
  const [{ statement: day }, setFilters] = useFilters({ statement: '' });
  const setDay = (statement: string) => setFilters({ statement });
  const query = useStatements(31);
  const list = query.data?.pages.flatMap((page) => page.list) ?? [];
  return (
    <Page
      title="Statements"
      lead={
        <>
          One signed statement for each UTC day: what you earned, what became payable, and the proof that the day’s
          batch has it. Keep them: you can check them without this service.
        </>
      }
    >
      <Section
        title="Days"
        json={list}
        note={
          <>
            A day is batched after 00:15 UTC of the next day, and signed soon after. Days without anything of yours have
            no statement.
          </>
        }
      >
        <Loaded query={query}>
          {() => (
            <Days
              list={list}
              onOpen={setDay}
              more={query.hasNextPage ? () => void query.fetchNextPage() : undefined}
              loadingMore={query.isFetchingNextPage}
            />
          )}
        </Loaded>
      </Section>
      <Check />
      <Drawer
        opened={day !== ''}
        onClose={() => setDay('')}
        position="right"
        size="xl"
        title={`Statement of ${day}`}
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        {day !== '' && <Statement day={day} />}
      </Drawer>
    </Page>
  );
}

function Days({
  list,
  onOpen,
  more,
  loadingMore,
}: {
  list: Listed[];
  onOpen: (day: string) => void;
  more: (() => void) | undefined;
  loadingMore: boolean;
}) {
  const name = useChainName();
  const columns: Column<Listed>[] = [
    { name: 'Day (UTC)', cell: (one) => one.day },
    { name: 'Share', cell: (one) => <Money usd={one.amount_usd_str} />, numeric: true },
    {
      name: 'Became payable',
      cell: (one) => (one.posted_usd_str === null ? 'not yet' : <Money usd={one.posted_usd_str} />),
      numeric: true,
    },
    { name: 'Lines', cell: (one) => count(one.lines), numeric: true },
    { name: 'Chain', cell: (one) => name(one.chain_id) },
    {
      name: 'State',
      cell: (one) =>
        one.blocked ? (
          <State tone="warning">being looked at</State>
        ) : one.signed ? (
          <State tone="good">signed</State>
        ) : (
          <State tone="busy">not signed yet</State>
        ),
    },
  ];
  return (
    <DataTable
      caption="Daily statements, the newest first"
      columns={columns}
      rows={list}
      id={(one) => `${one.day} ${one.chain_id}`}
      onOpen={(one) => onOpen(one.day)}
      empty="No day of yours is batched yet. The first statement comes the day after your first request."
      more={more}
      loadingMore={loadingMore}
    />
  );
}

const commands = `cd services/settlement/statement && npm ci
node verify.mjs ~/Downloads/statement-DAY.json ADDRESS ~/Downloads/earnings-DAY-DAY.csv`;

function Check() {
  const signers = useQuery({
    queryKey: ['signers'],
    queryFn: () => answer(api.GET('/api/v1/stats/signers')),
    staleTime: 300_000,
  });
  return (
    <Section title="How to check a statement" json={signers.data}>
      <Loaded query={signers}>
        {(data) => {
          const address = data.signers.find((signer) => signer.name === 'statement')?.address ?? '';
          return (
            <Stack gap="sm">
              <Text size="sm" component="div">
                {address === '' ? (
                  'The platform signs no statements now.'
                ) : (
                  <>
                    Statements are signed (EIP-712) by the key <Id value={address} what="address of the key" full />.
                    Write it down once: a signature of another key counts for nothing.
                  </>
                )}
              </Text>
              <List type="ordered" size="sm" spacing={4}>
                <List.Item>Open a day above, and download its statement and its CSV.</List.Item>
                <List.Item>
                  Run the program below, which shares no code with the service. It needs Node.js and the source of the
                  marketplace.
                </List.Item>
                <List.Item>
                  It checks the leaf, the proof to the batch’s root, the share, the SHA-256 of the CSV and the
                  signature.
                </List.Item>
              </List>
              <CodeBlock
                code={address === '' ? commands : commands.replace('ADDRESS', address)}
                label="How to check a statement"
              />
              <Text size="sm">
                “svc-agent earnings” compares the statements with what your machine itself counted, and checks each
                signature with the key that it was first told.
              </Text>
            </Stack>
          );
        }}
      </Loaded>
    </Section>
  );
}
