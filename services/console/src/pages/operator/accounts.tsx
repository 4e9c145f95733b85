import { NativeSelect, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment, Money, State } from '../../ui/text';
import { Act } from './act';
import { needs } from './allowed';
import { AccountLink } from './links';
import { useCursorList, useDone } from './lists';
import { useSteadyKey } from './steady-key';

type Listed = Schemas['ListedAccount'];

const kinds = {
  email: { label: 'E-mail', note: 'The beginning of the address' },
  key: { label: 'Key', note: 'The 12 characters that are shown of a key' },
  wallet: { label: 'Wallet', note: '0x and 40 hexadecimal digits' },
};

type Kind = keyof typeof kinds;

function isKind(text: string): text is Kind {
  return Object.hasOwn(kinds, text);
}

export default function Accounts() {
  const [filters, setFilters] = useFilters({ by: 'email', q: '', state: '' });
  const by: Kind = isKind(filters.by) ? filters.by : 'email';
  const [words] = useDebouncedValue(filters.q.trim(), 300);
  const query = {
    email_prefix: by === 'email' ? words : '',
    key_prefix: by === 'key' ? words : '',
    wallet: by === 'wallet' ? words : '',
    state: filters.state,
  };
  // Half a key prefix or wallet is no search yet.
  const whole = words === '' || by === 'email' || (by === 'key' ? words.length === 12 : words.length === 42);
  const list = useCursorList(
    ['admin', 'accounts', query],
    (cursor) => answer(api.GET('/api/v1/admin/accounts', { params: { query: { ...query, cursor, page_size: 50 } } })),
    { enabled: whole },
  );
  const rows = list.pages.flatMap((page) => page.list);
  return (
    <Page
      title="Accounts"
      lead="Find an account by its user, by a key, or by a wallet. Open it to help."
      actions={<NewAccount />}
    >
      <Section title="Search" json={rows} note={by === 'wallet' ? walletNote : undefined}>
        <Stack>
          <Filters by={by} filters={filters} set={setFilters} />
          {whole ? (
            <Loaded query={list.query}>
              {() => (
                <DataTable
                  caption="Accounts"
                  columns={by === 'wallet' && words !== '' ? [...columns, walletColumn] : columns}
                  rows={rows}
                  id={(one) => one.account_id}
                  empty={
                    words === '' && filters.state === ''
                      ? 'Nobody has signed up yet.'
                      : 'No account fits. Mind that the beginning must be exact.'
                  }
                  more={list.more}
                  loadingMore={list.loadingMore}
                />
              )}
            </Loaded>
          ) : (
            <Text size="sm" role="status">
              Go on typing: {kinds[by].note.toLowerCase()}.
            </Text>
          )}
        </Stack>
      </Section>
    </Page>
  );
}

type FilterName = 'by' | 'q' | 'state';

interface FiltersProps {
  by: Kind;
  filters: Record<FilterName, string>;
  set: (change: Partial<Record<FilterName, string>>) => void;
}

function Filters({ by, filters, set }: FiltersProps) {
  return (
    <SimpleGrid cols={{ base: 1, sm: 3 }}>
      <NativeSelect
        label="Search by"
        description="One at a time"
        value={by}
        data={Object.entries(kinds).map(([value, { label }]) => ({ value, label }))}
        onChange={(event) => set({ by: event.currentTarget.value, q: '' })}
      />
      <TextInput
        label={kinds[by].label}
        description={kinds[by].note}
        value={filters.q}
        onChange={(event) => set({ q: event.currentTarget.value })}
        autoComplete="off"
        spellCheck={false}
      />
      <NativeSelect
        label="State"
        description="Only these"
        value={filters.state}
        data={[{ value: '', label: 'All' }, 'open', 'frozen']}
        onChange={(event) => set({ state: event.currentTarget.value })}
      />
    </SimpleGrid>
  );
}

const walletNote =
  'Only “proven” shows that the holder of the wallet is the account’s user. Anybody can pay into the deposit address of another.';

const columns: Column<Listed>[] = [
  { name: 'Account', cell: (one) => <span className="breakable">{one.email || one.name || 'no name'}</span> },
  { name: 'Id', cell: (one) => <AccountLink id={one.account_id} /> },
  { name: 'State', cell: (one) => <State tone={one.state === 'open' ? 'good' : 'bad'}>{one.state}</State> },
  { name: 'Balance', numeric: true, cell: (one) => <Money usd={one.balance_usd_str} /> },
  { name: 'Held', numeric: true, cell: (one) => <Money usd={one.held_usd_str} /> },
  { name: 'Opened', cell: (one) => <Moment at={one.created_at} /> },
];

const walletColumn: Column<Listed> = {
  name: 'The wallet is',
  cell: (one) => one.wallet_is.map((word) => word.replaceAll('_', ' ')).join(', ') || '–',
};

/** Opens an account without a user, for whom somebody else makes keys. */
function NewAccount() {
  const navigate = useNavigate();
  const done = useDone();
  const key = useSteadyKey();
  const [name, setName] = useState('');
  return (
    <Act
      label="New account"
      title="Open an account without a user?"
      permission={needs['POST /api/v1/admin/accounts']}
      facts={[['Second person', 'none is needed']]}
      params={['name']}
      fields={(form) => (
        <TextInput
          label="Name"
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          error={form.of('name')}
        />
      )}
      run={() => answer(api.POST('/api/v1/admin/accounts', { body: { name, idempotency_key: key.of(name) } }))}
      done={({ account }) => {
        key.clear();
        done('The account is open.');
        if (account !== null) void navigate(`/accounts/${account.account_id}`);
      }}
    >
      The account has no credit and nobody who signs in. Give it credit and a key on its page.
    </Act>
  );
}
