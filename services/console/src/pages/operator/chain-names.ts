import { useQuery } from '@tanstack/react-query';

import { answer, api } from '../../api/client';

/** How far each chain is read, renewed every half minute. */
export function useChains() {
  return useQuery({
    queryKey: ['admin', 'chains', 'states'],
    queryFn: () => answer(api.GET('/api/v1/admin/chains')),
    refetchInterval: 30_000,
  });
}

/** Names chains for people: `Base (8453)`; by the number alone while the names are not known. */
export function useChainName(): (id: number | string) => string {
  const { data } = useChains();
  return (id) => {
    const name = data?.chains.find((chain) => chain.chain_id === String(id))?.name ?? '';
    return name === '' ? `Chain ${id}` : `${name} (${id})`;
  };
}
