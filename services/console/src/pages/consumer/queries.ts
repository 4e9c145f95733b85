// What several pages of an account ask for. Each has one name in the cache, so that the pages share the answers.

import { useInfiniteQuery, useQuery } from '@tanstack/react-query';

import { answer, api } from '../../api/client';
import { useCatalog } from '../anyone/catalog';

/** The first word of the names of all queries here. */
export const scope = 'consumer';

export const balanceKey = [scope, 'balance'] as const;
export const meKey = [scope, 'me'] as const;
export const keysKey = [scope, 'keys'] as const;
export const subscriptionKey = [scope, 'subscription'] as const;
export const limitsKey = [scope, 'limits'] as const;
export const webhooksKey = [scope, 'webhooks'] as const;
export const ledgerKey = [scope, 'ledger'] as const;
export const identitiesKey = [scope, 'identities'] as const;
export const checkoutsKey = [scope, 'checkouts'] as const;

export function useBalance() {
  return useQuery({
    queryKey: balanceKey,
    queryFn: () => answer(api.GET('/api/v1/consumer/balance')),
    refetchInterval: 30_000,
  });
}

export function useMe() {
  return useQuery({ queryKey: meKey, queryFn: () => answer(api.GET('/api/v1/user/me')) });
}

/** The 200 newest keys, for names and choices. The page of keys lists all. */
export function useKeys(revoked = false) {
  return useQuery({
    queryKey: [...keysKey, revoked],
    queryFn: () => answer(api.GET('/api/v1/user/me/keys', { params: { query: { page_size: 200, revoked } } })),
  });
}

export function useSubscription(pollSeconds = 0) {
  return useQuery({
    queryKey: subscriptionKey,
    queryFn: () => answer(api.GET('/api/v1/consumer/subscription')),
    refetchInterval: pollSeconds > 0 ? pollSeconds * 1000 : false,
  });
}

/** The plans that are sold. They change seldom. */
export function usePlans() {
  return useQuery({ queryKey: ['plans'], queryFn: () => answer(api.GET('/api/v1/plans')), staleTime: 300_000 });
}

export function useLimits() {
  return useQuery({ queryKey: limitsKey, queryFn: () => answer(api.GET('/api/v1/consumer/limits')) });
}

/** What operators agreed with the account. */
export function useTerms() {
  return useQuery({ queryKey: [scope, 'terms'], queryFn: () => answer(api.GET('/api/v1/consumer/terms')) });
}

export function useWebhooks() {
  return useQuery({ queryKey: webhooksKey, queryFn: () => answer(api.GET('/api/v1/user/me/webhooks')) });
}

/** The ids of the catalog, for suggestions. */
export function useModelIds(): string[] {
  return useCatalog().data?.map((model) => model.id) ?? [];
}

export interface RequestFilter {
  from: string;
  to: string;
  key: string;
  model: string;
}

/** The settled requests of an account, page after page. */
export function useUsedRequests(filter: RequestFilter, limit = 50) {
  return useInfiniteQuery({
    queryKey: [scope, 'requests', filter, limit],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/api/v1/consumer/usage/requests', {
          params: { query: { ...given(filter), limit, cursor: pageParam || undefined } },
        }),
      ),
    getNextPageParam: (page) => page.next_cursor || undefined,
  });
}

/** The parameters that are not empty. */
export function given<T extends { [Name in keyof T]: string }>(parameters: T): Partial<T> {
  return Object.fromEntries(Object.entries<string>(parameters).filter(([, value]) => value !== '')) as Partial<T>;
}
