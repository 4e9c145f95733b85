// What the provider's pages ask the API for. All keys begin with `provider`, so that a change can have all of
// it asked for again.

import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query';
import { useRef } from 'react';

import { answer, api, idempotencyKey, type Schemas } from '../../api/client';
import { asApiError } from '../../api/error';

export type Account = Schemas['ProviderOverview'];
export type Status = Schemas['ProviderStatus'];
export type Standing = Schemas['ProviderStanding'];
export type Benchmark = Schemas['ProviderBenchmark'];
export type Earnings = Schemas['ProviderEarnings'];
export type Penalty = Schemas['ProviderPenalty'];
export type Payout = Schemas['ProviderPayout'];
export type PayoutTerms = Schemas['ProviderPayoutTerms'];
export type Collateral = Schemas['ProviderCollateralState'];
export type Refund = Schemas['ProviderRefund'];
export type Endpoint = Schemas['ProviderEndpoint'];

/** How often figures that move by themselves are asked for, in milliseconds. */
const often = 30_000;

/** The account: what stands behind it, what it earns, and what is missing. */
export function useAccount() {
  return useQuery({
    queryKey: ['provider', 'me'],
    queryFn: () => answer(api.GET('/api/v1/provider/me')),
    refetchInterval: often,
  });
}

/** The machines, and why requests come or do not. */
export function useStatus() {
  return useQuery({
    queryKey: ['provider', 'status'],
    queryFn: () => answer(api.GET('/api/v1/provider/status')),
    refetchInterval: often,
  });
}

/** Where each model stands with the verifier. */
export function useStandings() {
  return useQuery({
    queryKey: ['provider', 'standing'],
    queryFn: () => answer(api.GET('/api/v1/provider/standing')),
    refetchInterval: often,
  });
}

export function useBenchmarks(model: string) {
  return useInfiniteQuery({
    queryKey: ['provider', 'benchmarks', model],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/api/v1/provider/benchmarks', {
          params: { query: { model_id: given(model), cursor: given(pageParam), page_size: 25 } },
        }),
      ),
    getNextPageParam: (last) => given(last.next_cursor),
    refetchInterval: (query) =>
      query.state.data?.pages[0]?.list.some((run) => run.result === 'running') === true ? 10_000 : 60_000,
  });
}

export function useChallenges(flow: 'visible' | 'hidden') {
  return useInfiniteQuery({
    queryKey: ['provider', 'challenges', flow],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/api/v1/provider/challenges', {
          params: { query: { flow, cursor: given(pageParam), page_size: 50 } },
        }),
      ),
    getNextPageParam: (last) => given(last.next_cursor),
  });
}

export function useEarnings() {
  return useQuery({
    queryKey: ['provider', 'earnings'],
    queryFn: () => answer(api.GET('/api/v1/provider/earnings')),
    refetchInterval: often,
  });
}

/** What was earned on each of the last days. */
export function useEarningsByDay(days: number) {
  return useQuery({
    queryKey: ['provider', 'earnings', 'by-day', days],
    queryFn: () => answer(api.GET('/api/v1/provider/earnings', { params: { query: { days } } })),
    refetchInterval: often,
  });
}

export function useCollateral() {
  return useQuery({
    queryKey: ['provider', 'collateral'],
    queryFn: () => answer(api.GET('/api/v1/provider/collateral')),
    refetchInterval: often,
  });
}

export function usePenalties() {
  return useInfiniteQuery({
    queryKey: ['provider', 'penalties'],
    initialPageParam: 1,
    queryFn: ({ pageParam }) =>
      answer(api.GET('/api/v1/provider/penalties', { params: { query: { page: pageParam, page_size: 20 } } })),
    getNextPageParam: (last) => following(last),
  });
}

export function usePayouts() {
  return useInfiniteQuery({
    queryKey: ['provider', 'payouts'],
    initialPageParam: 1,
    queryFn: ({ pageParam }) =>
      answer(api.GET('/api/v1/provider/payouts', { params: { query: { page: pageParam, page_size: 25 } } })),
    getNextPageParam: (last) =>
      following({ page: last.page ?? 1, page_size: last.page_size ?? 25, total: last.total ?? 0 }),
    refetchInterval: often,
  });
}

/** The statements of days before a day, the newest first. */
export function useStatements(size: number) {
  return useInfiniteQuery({
    queryKey: ['provider', 'statements', size],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/api/v1/provider/statements', { params: { query: { before: given(pageParam), page_size: size } } }),
      ),
    getNextPageParam: (last) => given(last.next_before),
  });
}

export function useEndpoints() {
  return useInfiniteQuery({
    queryKey: ['provider', 'endpoints'],
    initialPageParam: 1,
    queryFn: ({ pageParam }) =>
      answer(api.GET('/api/v1/provider/external-endpoints', { params: { query: { page: pageParam, page_size: 50 } } })),
    getNextPageParam: (last) => following(last),
    refetchInterval: often,
  });
}

/** Has all figures of the provider asked for again, after something was changed. */
export function useChanged(): () => Promise<void> {
  const queries = useQueryClient();
  return () => queries.invalidateQueries({ queryKey: ['provider'] });
}

/**
 * An act that a question confirms, with a key for Idempotency-Key. The key stays the same until the service
 * has answered, so that a lost connection does nothing twice.
 */
export function useOnce<T>(act: (key: string) => Promise<T>): () => Promise<T> {
  const key = useRef('');
  return async () => {
    if (key.current === '') key.current = idempotencyKey();
    try {
      const done = await act(key.current);
      key.current = '';
      return done;
    } catch (thrown) {
      const failed = asApiError(thrown);
      if (failed.status >= 400 && failed.status < 500) key.current = '';
      throw failed;
    }
  };
}

function given(text: string): string | undefined {
  return text === '' ? undefined : text;
}

function following({ page, page_size, total }: { page: number; page_size: number; total: number }): number | undefined {
  return page * page_size < total ? page + 1 : undefined;
}
