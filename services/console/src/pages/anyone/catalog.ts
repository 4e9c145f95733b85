// The whole catalog, which several pages show parts of. The route has pages and no filters, so the pages
// are read one after another and kept together.

import { useQuery, type UseQueryResult } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';

export type Model = Schemas['PublicModel'];
export type Weights = Schemas['CatalogModel'];

const pageSize = 200; // the most that the route gives at once
const maxPages = 50; // a catalog has at most 10,000 models

async function readCatalog(): Promise<Model[]> {
  const models: Model[] = [];
  for (let page = 1; page <= maxPages; page += 1) {
    const { data } = await answer(api.GET('/api/v1/models', { params: { query: { page, page_size: pageSize } } }));
    if (data === null) break;
    models.push(...data.list);
    if (data.list.length < pageSize) break;
  }
  return models;
}

/** All models. Who is online changes, so a catalog of a few pages is read again every half minute. */
export function useCatalog(): UseQueryResult<Model[]> {
  return useQuery({
    queryKey: ['catalog'],
    queryFn: readCatalog,
    refetchInterval: (query) => ((query.state.data?.length ?? 0) <= 5 * pageSize ? 30_000 : false),
  });
}

/** The weights that the catalog knows, by model id. */
export function useWeights(): UseQueryResult<Map<string, Weights>> {
  return useQuery({
    queryKey: ['catalog', 'weights'],
    queryFn: async () => {
      const { data } = await answer(api.GET('/api/v1/models/catalog'));
      return new Map((data?.models ?? []).map((one) => [one.model_id, one]));
    },
    staleTime: 5 * 60_000,
  });
}

/** Where a model's page is. Its id may have slashes, which stay, and colons. */
export function modelPath(id: string): string {
  return `/models/${id.split('/').map(encodeURIComponent).join('/')}`;
}
