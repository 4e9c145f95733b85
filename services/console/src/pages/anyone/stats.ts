// The public figures of the service. They are made once a minute, so they are asked for as often.

import { useQuery, type UseQueryResult } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';

export type ServiceStats = Schemas['ServiceStats']['data'];
export type ModelStats = Schemas['ModelStats'];
export type ProviderStats = Schemas['ProviderStats'];
export type Day = ServiceStats['days'][number];

const often = 60_000;

/** The figures of the whole service. */
export function useServiceStats(): UseQueryResult<ServiceStats> {
  return useQuery({
    queryKey: ['stats', 'service'],
    queryFn: async () => (await answer(api.GET('/api/v1/stats/service'))).data,
    refetchInterval: often,
  });
}

/** The figures of models, by id. */
export function useModelStats(): UseQueryResult<Map<string, ModelStats>> {
  return useQuery({
    queryKey: ['stats', 'models'],
    queryFn: async () => {
      const { data } = await answer(api.GET('/api/v1/stats/models'));
      return new Map(data.list.map((one) => [one.model_id, one]));
    },
    refetchInterval: often,
  });
}

/** The figures of providers, by id. */
export function useProviderStats(): UseQueryResult<Map<string, ProviderStats>> {
  return useQuery({
    queryKey: ['stats', 'providers'],
    queryFn: async () => {
      const { data } = await answer(api.GET('/api/v1/stats/providers'));
      return new Map(data.list.map((one) => [one.provider_id, one]));
    },
    refetchInterval: often,
  });
}
