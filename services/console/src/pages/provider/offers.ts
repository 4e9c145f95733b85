// What the marketplace shows everybody of the provider's own offers: how fast and how reliable they are.

import { useQueries } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';

export type Offer = Schemas['PublicOffering'];

/** Offers of more models are on the pages of these models. */
export const maxOffers = 24;

const pageSize = 200;
const maxPages = 10;

async function ownOffer(model: string, provider: string): Promise<Offer | null> {
  for (let page = 1; page <= maxPages; page++) {
    const { data } = await answer(
      api.GET('/api/v1/models/{model_id}/providers', {
        params: { path: { model_id: model }, query: { page, page_size: pageSize } },
      }),
    );
    const own = data?.list.find((offer) => offer.provider_id === provider);
    if (own !== undefined) return own;
    if (data === null || page * pageSize >= data.total) return null;
  }
  return null;
}

/** The provider's offer of each model, in the order of the models; null where it is not offered now. */
export function useOwnOffers(models: string[], provider: string) {
  return useQueries({
    queries: models.slice(0, maxOffers).map((model) => ({
      queryKey: ['own-offer', provider, model],
      queryFn: () => ownOffer(model, provider),
      staleTime: 60_000,
      enabled: provider !== '',
    })),
  });
}
