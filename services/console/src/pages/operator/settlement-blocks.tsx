// Providers whose earnings a witness contradicts.

import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { count } from '../../format/quantity';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment } from '../../ui/text';
import { Act, RoleNote } from './act';
import { ProviderLink } from './links';
import { useDone } from './lists';

type Block = Schemas['Block'];

const causes: Record<string, string> = {
  lines: 'Requests are not what settlement’s own lines say. This may mend itself.',
  sums: 'The changes of an account do not add up to what it moved.',
  balance: 'An account does not begin with what it ended with.',
  held: 'More is held than there is, or less than nothing.',
  batches: 'The ledger has a batch that settlement did not make.',
};

export function useBlocks() {
  return useQuery({
    queryKey: ['admin', 'earnings-blocks'],
    queryFn: () => answer(api.GET('/api/v1/admin/earnings/blocks')),
    refetchInterval: 60_000,
  });
}

const columns: Column<Block>[] = [
  { name: 'Provider', cell: (block) => <ProviderLink id={block.provider_id} /> },
  { name: 'Day (UTC)', cell: (block) => <span className="tabular">{block.day}</span> },
  { name: 'Cause', cell: (block) => causes[block.cause] ?? block.cause },
  { name: 'Differences', numeric: true, cell: (block) => count(block.differences) },
  { name: 'Found', cell: (block) => <Moment at={block.at} withAge /> },
  { name: 'Act', cell: (block) => <Lift provider={block.provider_id} /> },
];

export function BlockedProviders() {
  const query = useBlocks();
  return (
    <Section
      title="Blocked providers"
      json={query.data}
      note="Nothing of a blocked provider is batched, so nothing more becomes payable to it. What is payable already stays payable. Compare
        the two services on the page of the books, find the cause, then lift the block."
    >
      <RoleNote permission="pay" />
      <Loaded query={query}>
        {(data) => (
          <DataTable
            caption="Blocked providers, the oldest block first"
            columns={columns}
            rows={data.list}
            id={(block) => `${block.day} ${block.provider_id} ${block.cause}`}
            empty="No provider is blocked. Both witnesses agree with the ledger."
          />
        )}
      </Loaded>
    </Section>
  );
}

function Lift({ provider }: { provider: string }) {
  const done = useDone();
  return (
    <Act
      label="Lift"
      title="Lift all blocks of this provider?"
      permission="pay"
      facts={[
        ['Provider', <ProviderLink key="provider" id={provider} />],
        ['Amount', 'All of its free earnings that no batch had; the next batch counts them'],
        ['Second person', 'None is needed'],
      ]}
      reason="Why the ledger is right. The audit log keeps it. 1 to 500 characters."
      run={({ reason }) =>
        answer(
          api.POST('/api/v1/admin/earnings/blocks/{provider_id}/lift', {
            params: { path: { provider_id: provider } },
            body: { reason },
          }),
        )
      }
      done={() => done('The blocks of the provider are lifted.')}
    >
      Every block of the provider is lifted, of all days. The next batch takes up its share as the ledger has it, and
      the share becomes payable. Do this only when you know that the ledger is right.
    </Act>
  );
}
