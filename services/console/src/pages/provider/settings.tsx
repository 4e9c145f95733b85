import { answer, api } from '../../api/client';
import { Confirm } from '../../ui/confirm';
import { Loaded, Page, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { Beneficiary } from './beneficiary';
import { useAccount, useChanged, type Account } from './queries';
import { Review } from './review';
import { statusTones } from './words';

export default function Settings() {
  const account = useAccount();
  return (
    <Page
      title="Provider settings"
      lead="Where your earnings go, what keys have proposed, and a review by an operator."
    >
      <Loaded query={account}>
        {(me) => (
          <>
            <Who me={me} />
            <Beneficiary me={me} />
            <Proposals me={me} />
            <Review me={me} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Who({ me }: { me: Account }) {
  return (
    <Section title="The account" json={me}>
      <Facts
        facts={[
          ['Name', <span className="breakable">{me.name}</span>],
          ['Status', <State tone={statusTones[me.status] ?? 'neutral'}>{me.label}</State>],
          ['Provider id', <Id value={me.provider_id} what="provider id" />],
          ['Account for credit', <Id value={me.account_id} what="account id" />],
          [
            'Owner’s wallet',
            me.owner_address === '' ? (
              'none'
            ) : (
              <>
                <Id value={me.owner_address} what="owner’s address" />{' '}
                {me.owner_proven ? <State tone="good">proven</State> : <State tone="warning">only claimed</State>}
              </>
            ),
          ],
          ['Bound since', <Moment at={me.owner_bound_at} />],
        ]}
      />
    </Section>
  );
}

type Proposal = Account['proposals'][number];

const columns: Column<Proposal>[] = [
  { name: 'What', cell: (one) => (one.kind === 'beneficiary' ? 'where earnings go' : 'whose wallet owns the account') },
  { name: 'Address', cell: (one) => <Id value={one.address} what="address" full /> },
  { name: 'Proposed', cell: (one) => <Moment at={one.proposed_at} withAge /> },
  { name: 'By the key', cell: (one) => <Id value={one.key_id} what="key id" /> },
  { name: 'Decide', cell: (one) => <Decide of={one} /> },
];

function Proposals({ me }: { me: Account }) {
  if (me.proposals.length === 0) return null;
  return (
    <Section
      title="Proposed by a key"
      json={me.proposals}
      note={
        <>
          A key may have leaked, so what it asks for counts only once you confirm it. If you did not ask for it, drop it
          and revoke that key.
        </>
      }
    >
      <DataTable caption="Proposals" columns={columns} rows={me.proposals} id={(one) => one.proposal_id} empty="" />
    </Section>
  );
}

function Decide({ of: proposal }: { of: Proposal }) {
  const changed = useChanged();
  const params = { path: { proposal_id: proposal.proposal_id } };
  return (
    <>
      <Confirm
        label="Confirm"
        title="Let this proposal count?"
        act={async () => {
          await answer(api.POST('/api/v1/user/me/provider-proposals/{proposal_id}', { params }));
          await changed();
        }}
      >
        {proposal.kind === 'beneficiary' ? 'Earnings go to' : 'The account belongs to the wallet'} {proposal.address}{' '}
        from now on.
        {proposal.kind === 'beneficiary' ? ' Nothing is paid out for 48 hours.' : ' Only an operator can undo this.'} It
        takes a sign-in of the last 15 minutes.
      </Confirm>{' '}
      <Confirm
        label="Drop"
        title="Drop this proposal?"
        destructive
        act={async () => {
          await answer(api.DELETE('/api/v1/user/me/provider-proposals/{proposal_id}', { params }));
          await changed();
        }}
      >
        The address does not count, and the account stays as it is. Whoever proposed it has one of your keys: revoke
        that key if you did not propose it.
      </Confirm>
    </>
  );
}
