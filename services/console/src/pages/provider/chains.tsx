// Names of chains, and links to their explorers, from the table of where collateral is taken.

import { Anchor } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { Id } from '../../ui/text';

export type Chain = Schemas['CollateralChain'];

export function useContracts() {
  return useQuery({
    queryKey: ['collateral-contract'],
    queryFn: async () => (await answer(api.GET('/api/v1/provider/collateral/contract'))).data,
    staleTime: 300_000,
  });
}

/** Names chains: `Base (8453)`. Chain 0 is a card. */
export function useChainName(): (id: number) => string {
  const { data } = useContracts();
  return (id) => {
    if (id === 0) return 'Card';
    const name = data?.chains.find((chain) => chain.chain_id === id)?.chain_name ?? '';
    return name === '' ? `Chain ${id}` : `${name} (${id})`;
  };
}

/** A transaction to copy, and to look at where the chain has an explorer. */
export function Transaction({ hash, chain }: { hash: string; chain: number }) {
  const { data } = useContracts();
  if (hash === '') return <>–</>;
  const explorer = data?.chains.find((one) => one.chain_id === chain)?.explorer_url ?? '';
  return (
    <>
      <Id value={hash} what="transaction" />
      {/^https?:\/\//.test(explorer) && (
        <Anchor
          href={`${explorer.replace(/\/+$/, '')}/tx/${encodeURIComponent(hash)}`}
          target="_blank"
          rel="noreferrer"
          size="sm"
        >
          Look
        </Anchor>
      )}
    </>
  );
}
