import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { signedOut } from '../../api/session';
import { Confirm } from '../../ui/confirm';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { scope } from './queries';

type Session = Schemas['UserSession'];

export const sessionsKey = [scope, 'sessions'] as const;

export function Sessions() {
  const sessions = useQuery({ queryKey: sessionsKey, queryFn: () => answer(api.GET('/api/v1/user/me/sessions')) });
  return (
    <Section
      title="Sessions"
      json={sessions.data}
      note="Where you are signed in. End each that you do not know, then change your password."
      actions={<EndAll />}
    >
      <Loaded query={sessions}>
        {(data) => (
          <DataTable
            caption="Sessions"
            columns={columns}
            rows={data.sessions}
            id={(session) => session.session_id}
            empty="There is no session."
          />
        )}
      </Loaded>
    </Section>
  );
}

const columns: Column<Session>[] = [
  { name: 'Network', cell: (session) => <span className="breakable">{session.network || '–'}</span> },
  { name: 'Began', cell: (session) => <Moment at={session.created_at} /> },
  { name: 'Last used', cell: (session) => <Moment at={session.used_at} withAge /> },
  { name: 'Ends', cell: (session) => <Moment at={session.expires_at} /> },
  { name: 'Kept by', cell: (session) => (session.remembered ? "A browser's cookie" : 'A program') },
  { name: 'Id', wideOnly: true, cell: (session) => <Id value={session.session_id} what="session id" /> },
  {
    name: 'End it',
    cell: (session) => (session.current ? <State tone="good">This one</State> : <End session={session} />),
  },
];

function End({ session }: { session: Session }) {
  const queries = useQueryClient();
  async function act() {
    await answer(
      api.DELETE('/api/v1/user/me/sessions/{session_id}', { params: { path: { session_id: session.session_id } } }),
    );
    await queries.invalidateQueries({ queryKey: sessionsKey });
  }
  return (
    <Confirm label="End" title="End the session?" act={act} destructive>
      Whoever uses it is signed out at once. Keys go on working.
    </Confirm>
  );
}

function EndAll() {
  const queries = useQueryClient();
  const navigate = useNavigate();
  async function act() {
    await answer(api.POST('/api/v1/user/logout', { body: { everywhere: true } }));
    signedOut();
    queries.clear();
    await navigate('/sign-in');
  }
  return (
    <Confirm label="Sign out everywhere" title="Sign out everywhere?" act={act} destructive>
      All your sessions end, this one too, and you sign in again. Keys go on working.
    </Confirm>
  );
}
