// How far each chain is read, and the halt of a chain whose final history changed.

import { TextInput } from '@mantine/core';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { count } from '../../format/quantity';
import { Loaded, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { Act, RoleNote } from './act';
import { useChains } from './chain-names';
import { useDone } from './lists';

type Chain = Schemas['ChainState'];

const columns: Column<Chain>[] = [
  { name: 'Chain', cell: (chain) => `${chain.name} (${chain.chain_id})` },
  { name: 'Reading', cell: (chain) => <Reading chain={chain} /> },
  { name: 'Head', numeric: true, cell: (chain) => height(chain.head) },
  { name: 'Final', numeric: true, cell: (chain) => height(chain.final) },
  { name: 'Read', numeric: true, cell: (chain) => height(chain.block) },
  { name: 'Behind', numeric: true, cell: (chain) => `${count(chain.lag)} blocks` },
  { name: 'Read again', numeric: true, cell: (chain) => height(chain.second_block) },
  { name: 'Last progress', cell: (chain) => <Moment at={chain.progressed_at} withAge /> },
];

export function ChainStates() {
  const query = useChains();
  const halted = query.data?.chains.filter((chain) => chain.halt !== null) ?? [];
  return (
    <>
      {halted.map((chain) => (
        <ChangedHistory key={chain.chain_id} chain={chain} />
      ))}
      <Section
        title="Reading"
        json={query.data}
        note="A block is read once all RPCs call it final and agree on it. Each block is read a second time within a day. Behind counts
          final blocks that are not read yet."
      >
        <Loaded query={query}>
          {(data) => (
            <div aria-live="polite">
              <DataTable
                caption="How far each chain is read"
                columns={columns}
                rows={data.chains}
                id={(chain) => chain.chain_id}
                empty="No chain is configured. Without chains, money moves by card alone."
              />
            </div>
          )}
        </Loaded>
      </Section>
    </>
  );
}

function Reading({ chain }: { chain: Chain }) {
  if (chain.halt !== null) return <State tone="bad">halted</State>;
  if (chain.problem === '') return <State tone="good">reads</State>;
  return (
    <>
      <State tone="warning">cannot be read</State> <span className="breakable">{chain.problem}</span>
    </>
  );
}

function height(block: string): string {
  return block === '0' ? '–' : count(block);
}

function ChangedHistory({ chain }: { chain: Chain }) {
  if (chain.halt === null) return null;
  const { halt } = chain;
  return (
    <Section
      title={`${chain.name} is halted: a final block changed`}
      json={halt}
      note="Nothing is credited and nothing is paid on this chain. Clocks of penalties go on. Find out from an explorer that nobody of the
        RPCs runs which hash the block has."
      actions={<LiftHalt chain={chain} />}
    >
      <RoleNote permission="run" />
      <Facts
        facts={[
          ['Block', count(halt.block)],
          ['Hash that was read', <Id key="was" value={halt.was_hash} what="hash" full />],
          ['Hash that the RPCs have now', <Id key="is" value={halt.is_hash} what="hash" full />],
          ['Since', <Moment key="since" at={halt.since} withAge />],
        ]}
      />
    </Section>
  );
}

function LiftHalt({ chain }: { chain: Chain }) {
  const done = useDone();
  const [hash, setHash] = useState('');
  return (
    <Act
      label="Lift the halt"
      title={`Accept the changed history of ${chain.name}?`}
      permission="run"
      destructive
      facts={[
        ['Chain', `${chain.name} (${chain.chain_id})`],
        ['Block', count(chain.halt?.block ?? '0')],
        ['To whom', 'Everybody whose deposit or collateral the accepted history does not have'],
        ['Second person', 'None is needed'],
      ]}
      params={['block_hash']}
      fields={(form) => (
        <TextInput
          label="Hash of the block that counts"
          description="0x and 64 digits. It must be the one that all RPCs have."
          value={hash}
          onChange={(event) => setHash(event.currentTarget.value)}
          error={form.of('block_hash')}
        />
      )}
      reason="How you know that this history counts. The record keeps it. 1 to 2,000 bytes."
      run={({ reason }) =>
        answer(
          api.POST('/api/v1/admin/chains/{chain_id}/halt', {
            params: { path: { chain_id: chain.chain_id } },
            body: { block_hash: hash.trim(), reason },
          }),
        )
      }
      done={({ block, taken_back }) =>
        done(`${chain.name} is read again behind block ${count(block)}. ${count(taken_back)} rows were taken back.`)
      }
    >
      Reading begins again behind the last block that both histories have. What the chain has no longer is taken back: a
      credited deposit that is gone is reversed, and what its owner has spent of it becomes a debt. This cannot be
      undone.
    </Act>
  );
}
