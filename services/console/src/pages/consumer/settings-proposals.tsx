// Addresses that a provider key has asked for. A key alone may not redirect earnings, so the user decides.

import { Group, Stack } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { Confirm } from '../../ui/confirm';
import { Loaded, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment } from '../../ui/text';
import { scope } from './queries';

type Proposal = Schemas['ProviderProposal'];

const proposalsKey = [scope, 'provider-proposals'] as const;

export function Proposals() {
  const bindings = useQuery({
    queryKey: proposalsKey,
    queryFn: () => answer(api.GET('/api/v1/user/me/provider-proposals')),
  });
  return (
    <Section
      title="Addresses of your provider"
      json={bindings.data}
      note={
        <>
          A provider key alone cannot change where earnings go or who owns the provider. It can only propose. If you do
          not know a proposal, refuse it and revoke the key that made it.
        </>
      }
    >
      <Loaded query={bindings}>
        {(data) => (
          <Stack>
            <Facts
              facts={[
                [
                  'Earnings go to',
                  data.beneficiary_address === '' ? (
                    'Nowhere yet'
                  ) : (
                    <Id value={data.beneficiary_address} what="address" full />
                  ),
                ],
                ['Owner', <Owner bindings={data} />],
              ]}
            />
            <DataTable
              caption="Proposals"
              columns={columns}
              rows={data.proposals}
              id={(proposal) => proposal.proposal_id}
              empty="Nothing is proposed."
            />
          </Stack>
        )}
      </Loaded>
    </Section>
  );
}

function Owner({ bindings }: { bindings: Schemas['ProviderBindings'] }) {
  if (bindings.owner_address === '') return <>No wallet</>;
  return (
    <>
      <Id value={bindings.owner_address} what="address" full />{' '}
      {bindings.owner_proven ? 'Proven by its signature.' : 'Claimed, and not proven.'}
    </>
  );
}

function whatOf(proposal: Proposal): string {
  return proposal.kind === 'beneficiary' ? 'Earnings go to' : 'The owner is';
}

const columns: Column<Proposal>[] = [
  { name: 'Proposal', cell: whatOf },
  { name: 'Address', cell: (proposal) => <Id value={proposal.address} what="address" full /> },
  { name: 'By key', cell: (proposal) => <Id value={proposal.key_id} what="key id" /> },
  { name: 'Proposed', cell: (proposal) => <Moment at={proposal.proposed_at} withAge /> },
  {
    name: 'Takes effect',
    cell: (proposal) =>
      proposal.takes_effect_at === null ? 'Once you confirm it' : <Moment at={proposal.takes_effect_at} withAge />,
  },
  { name: 'Decide', cell: (proposal) => <Decide proposal={proposal} /> },
];

function Decide({ proposal }: { proposal: Proposal }) {
  const queries = useQueryClient();
  const params = { path: { proposal_id: proposal.proposal_id } };
  async function confirm() {
    await answer(api.POST('/api/v1/user/me/provider-proposals/{proposal_id}', { params }));
    await queries.invalidateQueries({ queryKey: proposalsKey });
  }
  async function refuse() {
    await answer(api.DELETE('/api/v1/user/me/provider-proposals/{proposal_id}', { params }));
    await queries.invalidateQueries({ queryKey: proposalsKey });
  }
  return (
    <Group gap="xs">
      <Confirm label="Confirm" title={`${whatOf(proposal)} this address?`} act={confirm}>
        {proposal.kind === 'beneficiary'
          ? `From now on your earnings go to ${proposal.address}. Whoever has its key has the money. Check each character.`
          : `From now on the wallet ${proposal.address} owns the provider and can sign in its name. Check each character.`}
      </Confirm>
      <Confirm label="Refuse" title="Refuse the proposal?" act={refuse} destructive>
        It is dropped. The key that made it can propose again until you revoke that key.
      </Confirm>
    </Group>
  );
}
