import { useQueryClient } from '@tanstack/react-query';
import { useLocation, useNavigate } from 'react-router';

import { answer, api } from '../api/client';
import { isOperatorSite, signedOut } from '../api/session';

/** Ends the session, and leads to a page. */
export function useLeave(): (to: string, state?: { from: string }) => Promise<void> {
  const navigate = useNavigate();
  const queries = useQueryClient();
  return async (to, state) => {
    try {
      await (isOperatorSite
        ? answer(api.DELETE('/api/v1/admin/session'))
        : answer(api.POST('/api/v1/user/logout', {})));
    } catch {
      // A session that the service does not end now ends by its age; this page forgets it either way.
    }
    signedOut();
    queries.clear();
    await navigate(to, { state });
  };
}

/** Has the reader sign in anew, who comes back to this page. A session that is renewed does not become fresh. */
export function useSignInAgain(): () => Promise<void> {
  const leave = useLeave();
  const { pathname, search } = useLocation();
  return () => leave('/sign-in', { from: pathname + search });
}
