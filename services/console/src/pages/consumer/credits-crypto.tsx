// Credit by crypto: where to send what, what is added, and what has arrived.

import { Group, NativeSelect, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { dollars, isZero } from '../../format/money';
import { useFilters } from '../../ui/filters';
import { Empty, Loaded, Section } from '../../ui/page';
import { QrCode } from '../../ui/qr';
import { Facts } from '../../ui/table';
import { Id, Money } from '../../ui/text';
import { Deposits } from './credits-deposits';
import { withPercent } from './exact';
import { scope } from './queries';

type Address = Schemas['GetConsumerDepositAddressResponse'];
type Chain = Schemas['ConsumerDepositChain'];
type Asset = Schemas['DepositAsset'];

interface Way {
  id: string;
  chain: Chain;
  asset: Asset;
}

export function CryptoCredits() {
  const address = useQuery({
    queryKey: [scope, 'deposit-address'],
    queryFn: () => answer(api.GET('/api/v1/consumer/deposit-address')),
  });
  return (
    <Stack gap="lg">
      <Section
        title="Add credit by crypto"
        json={address.data}
        note={
          <>
            The address is your account's own, for ever. Choose what you send, and on which chain: nothing else is
            credited by itself.
          </>
        }
      >
        <Loaded query={address}>{(data) => <Ways data={data} />}</Loaded>
      </Section>
      <Deposits />
    </Stack>
  );
}

function Ways({ data }: { data: Address }) {
  const ways: Way[] = data.chains.flatMap((chain) =>
    chain.assets.map((asset) => ({ id: `${chain.chain_id}-${asset.symbol}`, chain, asset })),
  );
  const [filters, setFilters] = useFilters({ token: ways[0]?.id ?? '' });
  const chosen = ways.find((way) => way.id === filters.token) ?? ways[0];
  if (chosen === undefined) return <Empty>This installation takes no crypto. Add credit by card.</Empty>;
  return (
    <Stack>
      <NativeSelect
        label="Token and chain"
        maw={320}
        value={chosen.id}
        onChange={(event) => setFilters({ token: event.currentTarget.value })}
        data={ways.map((way) => ({
          value: way.id,
          label: `${way.asset.symbol} on ${way.chain.name}${way.asset.bonus_percent > 0 ? `, ${way.asset.bonus_percent}% added` : ''}`,
        }))}
      />
      <WayFacts way={chosen} />
      {!isZero(data.open_usd_str) && (
        <Text size="sm" aria-live="polite">
          <Money usd={data.open_usd_str} /> has arrived and waits for the minimum, at the prices of now.
        </Text>
      )}
    </Stack>
  );
}

const example = '100';

function WayFacts({ way: { chain, asset } }: { way: Way }) {
  const bonus = asset.bonus_percent;
  return (
    <Group align="flex-start" gap="lg">
      <QrCode text={chain.address} label={`QR code of the address ${chain.address}`} />
      <Stack gap="sm" flex={1} miw={240}>
        <Text size="sm" fw={600}>
          Send only {asset.symbol} on {chain.name} (chain {chain.chain_id}).
        </Text>
        <Facts
          facts={[
            ['Address', <Id value={chain.address} what="address" full />],
            [
              'Token contract',
              asset.contract === '' ? "The chain's own coin" : <Id value={asset.contract} what="contract" full />,
            ],
            ['Least', `${dollars(chain.minimum_usd_str)} in all that waits. Less is kept until more arrives.`],
            [
              'Final after',
              chain.confirmations === 0 ? 'the chain says that it is final' : `${chain.confirmations} confirmations`,
            ],
            [
              'Added',
              bonus === 0
                ? `Nothing: ${dollars(example)} of ${asset.symbol} is ${dollars(example)} of credit.`
                : `${bonus}% of its value: ${dollars(example)} of ${asset.symbol} is ${dollars(withPercent(example, bonus))} of credit.`,
            ],
          ]}
        />
      </Stack>
    </Group>
  );
}
