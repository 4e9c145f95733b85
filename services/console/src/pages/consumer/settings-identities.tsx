// In which other ways a user signs in, beside a password.

import { Stack, Text } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { Confirm } from '../../ui/confirm';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment } from '../../ui/text';
import { identitiesKey, scope } from './queries';
import { LinkWallet } from './settings-wallet';

type Identity = Schemas['UserIdentity'];

export function Identities({ user }: { user: Schemas['User'] }) {
  const identities = useQuery({
    queryKey: identitiesKey,
    queryFn: () => answer(api.GET('/api/v1/user/me/identities')),
  });
  return (
    <Section
      title="Ways to sign in"
      json={identities.data}
      note={
        <>
          Beside a password: wallets, and accounts at other sites. Linking and unlinking take a sign-in in the last 15
          minutes: if yours is older, sign out and in again first.
        </>
      }
    >
      <Stack>
        <Loaded query={identities}>
          {(data) => (
            <DataTable
              caption="Ways to sign in"
              columns={columns}
              rows={data.identities}
              id={(identity) => identity.identity_id}
              empty="Nothing is linked. You sign in with your e-mail address and password."
            />
          )}
        </Loaded>
        {user.email !== '' && !user.email_confirmed ? (
          <Text size="sm">Confirm your e-mail address to link a wallet.</Text>
        ) : (
          <LinkWallet />
        )}
      </Stack>
    </Section>
  );
}

const columns: Column<Identity>[] = [
  {
    name: 'Kind',
    cell: (identity) => <span className="breakable">{identity.issuer === 'wallet' ? 'Wallet' : identity.issuer}</span>,
  },
  {
    name: 'Who',
    cell: (identity) => <Id value={identity.subject} what={identity.issuer === 'wallet' ? 'address' : 'subject'} />,
  },
  { name: 'Linked', cell: (identity) => <Moment at={identity.created_at} /> },
  { name: 'Last used', cell: (identity) => <Moment at={identity.used_at} withAge /> },
  { name: 'Id', wideOnly: true, cell: (identity) => <Id value={identity.identity_id} what="identity id" /> },
  { name: 'Unlink', cell: (identity) => <Unlink identity={identity} /> },
];

function Unlink({ identity }: { identity: Identity }) {
  const queries = useQueryClient();
  async function act() {
    await answer(
      api.DELETE('/api/v1/user/me/identities/{identity_id}', {
        params: { path: { identity_id: identity.identity_id } },
      }),
    );
    await queries.invalidateQueries({ queryKey: [scope] });
  }
  return (
    <Confirm label="Unlink" title="Unlink it?" act={act} destructive>
      You cannot sign in by it any more, and all your other sessions end. Your e-mail address, if you have one, gets a
      letter. The last way to sign in stays.
    </Confirm>
  );
}
