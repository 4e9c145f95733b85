// What all accounts come to, the entries with their legs, and the way to the pages of what they are about.

import { Button, Group, SimpleGrid, TextInput } from '@mantine/core';
import { useState, type FormEvent } from 'react';
import { useNavigate } from 'react-router';

import { coverage } from '../../format/amounts';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { Moment } from '../../ui/text';
import { TrialBalance } from './ledger-accounts';
import { Entries } from './ledger-entries';
import { books, reserveAmount, ReserveState, useReserves } from './reserves';

export default function Ledger() {
  const query = useReserves();
  return (
    <Page
      title="Ledger"
      lead="What all accounts of the ledger come to, and where the entries of one account or request stand."
    >
      <TrialBalance />
      <Section
        title="All accounts"
        json={query.data}
        note="As the books had it when reserves were last read. Amounts are in dollars."
      >
        <Loaded query={query}>
          {(data) => {
            const whole = books(data.list);
            if (whole === undefined)
              return <>The books have not been read yet. The first reading comes within an hour.</>;
            return (
              <SimpleGrid cols={{ base: 1, sm: 3 }} aria-live="polite">
                <Figure label="Held" note="Crypto, card processor, bank, and what the owner stands for">
                  {reserveAmount('books', whole.held)}
                </Figure>
                <Figure label="Owed" note="Consumers, providers, vendors, plan pools and unmatched deposits">
                  {reserveAmount('books', whole.owed)}
                </Figure>
                <Figure label="Held of owed" note={<Moment at={whole.read_at} withAge />}>
                  {coverage(whole.held, whole.owed)} <ReserveState reserve={whole} />
                </Figure>
              </SimpleGrid>
            );
          }}
        </Loaded>
      </Section>
      <Entries />
      <Section
        title="Find the page"
        note="A request's page has its cost, an account's its credit and freezes, a provider's its earnings and collateral."
      >
        <SimpleGrid cols={{ base: 1, md: 3 }}>
          <Finder label="Request id" to={(id) => `/requests?id=${encodeURIComponent(id.toLowerCase())}`} />
          <Finder label="Account id" to={(id) => `/accounts/${encodeURIComponent(id)}`} />
          <Finder label="Provider id" to={(id) => `/providers/${encodeURIComponent(id)}`} />
        </SimpleGrid>
      </Section>
    </Page>
  );
}

function Finder({ label, to }: { label: string; to: (id: string) => string }) {
  const [id, setId] = useState('');
  const navigate = useNavigate();
  function go(event: FormEvent) {
    event.preventDefault();
    if (id.trim() !== '') void navigate(to(id.trim()));
  }
  return (
    <form onSubmit={go}>
      <Group align="flex-end" wrap="nowrap" gap="xs">
        <TextInput label={label} value={id} onChange={(event) => setId(event.currentTarget.value)} flex={1} />
        <Button type="submit" variant="default">
          Open
        </Button>
      </Group>
    </form>
  );
}
