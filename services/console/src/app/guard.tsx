import { Loader } from '@mantine/core';
import { Navigate, Outlet, useLocation } from 'react-router';

import { refresh } from '../api/session';
import { Failure, Page } from '../ui/page';
import { useSession } from './session';

/** Lets users who are signed in through, and others sign in first. They come back to where they were. */
export function SignedIn() {
  const session = useSession();
  const location = useLocation();
  if (session.kind === 'unknown') return <Loader aria-label="Loading" />;
  if (session.kind === 'lost')
    return (
      <Page title="The service did not answer">
        <Failure
          error={session.error}
          title="We could not check whether you are signed in"
          retry={() => void refresh().catch(() => undefined)}
        />
      </Page>
    );
  if (session.kind === 'out')
    return <Navigate to="/sign-in" replace state={{ from: location.pathname + location.search }} />;
  return <Outlet />;
}

/** Lets owners of a provider through, and shows others how to become one. */
export function ProviderOnly() {
  const session = useSession();
  if (session.kind !== 'user') return <Loader aria-label="Loading" />;
  if ((session.user.provider_id ?? '') === '') return <Navigate to="/provider/start" replace />;
  return <Outlet />;
}
