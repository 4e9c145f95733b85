import { Tabs } from '@mantine/core';

import { useFilters } from '../../ui/filters';
import { Figure, Loaded, Page } from '../../ui/page';
import { Money } from '../../ui/text';
import { CardCredits } from './credits-card';
import { CryptoCredits } from './credits-crypto';
import { Figures } from './figures';
import { useBalance } from './queries';

export default function Credits() {
  const [filters, setFilters] = useFilters({ by: 'card' });
  const by = filters.by === 'crypto' ? 'crypto' : 'card';
  return (
    <Page title="Credits" lead="Credit pays for requests, however it was funded. All of it is one pool, in US dollars.">
      <Available />
      <Tabs value={by} onChange={(value) => setFilters({ by: value ?? 'card' })} keepMounted={false}>
        <Tabs.List aria-label="How to add credit">
          <Tabs.Tab value="card">By card</Tabs.Tab>
          <Tabs.Tab value="crypto">By crypto</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="card" pt="md">
          <CardCredits />
        </Tabs.Panel>
        <Tabs.Panel value="crypto" pt="md">
          <CryptoCredits />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

function Available() {
  return (
    <Loaded query={useBalance()}>
      {(balance) => (
        <div aria-live="polite">
          <Figures>
            <Figure label="Available credit" note="What further requests may use.">
              <Money usd={balance.available_usd_str} rounded />
            </Figure>
          </Figures>
        </div>
      )}
    </Loaded>
  );
}
