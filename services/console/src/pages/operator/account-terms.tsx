// What was agreed with an account: rates, places, tokens, a discount and priority over all of its keys.

import { Checkbox, Fieldset, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { ApiError } from '../../api/error';
import { Loaded, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import type { Account } from './account';
import { numberWords, wholeOf } from './account-limits';
import { Act } from './act';
import { needs } from './allowed';
import { useDone } from './lists';
import { shareOf } from './verification-words';

type Agreed = Schemas['AccountTerms'];
type Category = Schemas['CategoryTerms'];

const categories = ['llm', 'multimodal', 'embedding', 'image', 'audio'];
const none: Agreed = { categories: [], discount_basis_points: 0, priority: false, requests_per_minute: 0 };

export function Terms({ account }: { account: Account }) {
  const id = account.account_id;
  const query = useQuery({
    queryKey: ['admin', 'account', id, 'terms'],
    queryFn: () =>
      answer(api.GET('/api/v1/admin/accounts/{account_id}/terms', { params: { path: { account_id: id } } })),
  });
  const terms = query.data?.terms ?? none;
  return (
    <Section
      title="Terms"
      json={query.data}
      note="An enterprise arrangement. It bounds all keys of the account together, beside the limits of each key."
      actions={query.data !== undefined && <SetTerms key={JSON.stringify(terms)} account={account} terms={terms} />}
    >
      <Loaded query={query}>
        {(data) =>
          data.note === '' ? <Text size="sm">Nothing was ever agreed.</Text> : <Known terms={terms} note={data.note} />
        }
      </Loaded>
    </Section>
  );
}

function Known({ terms, note }: { terms: Agreed; note: string }) {
  return (
    <Stack>
      <Facts
        facts={[
          ['Discount', shareOf(terms.discount_basis_points)],
          ['Priority while providers are busy', terms.priority ? 'yes' : 'no'],
          ['Requests a minute, all keys', numberWords(terms.requests_per_minute, 'no bound')],
          ['Why', note],
        ]}
      />
      <DataTable
        caption="Terms by category"
        columns={columns}
        rows={terms.categories}
        id={(one) => one.category}
        empty="No category has terms of its own."
      />
    </Stack>
  );
}

const columns: Column<Category>[] = [
  { name: 'Category', cell: (one) => one.category },
  { name: 'Requests a minute', numeric: true, cell: (one) => numberWords(one.requests_per_minute, 'the default') },
  { name: 'At once', numeric: true, cell: (one) => numberWords(one.concurrent_requests, 'no bound') },
  { name: 'Tokens a day', numeric: true, cell: (one) => numberWords(one.tokens_per_day, 'no bound') },
];

interface Typed {
  requests_per_minute: string;
  concurrent_requests: string;
  tokens_per_day: string;
}

function typedOf(terms: Agreed): Record<string, Typed> {
  return Object.fromEntries(
    categories.map((category) => {
      const known = terms.categories.find((one) => one.category === category);
      return [
        category,
        {
          requests_per_minute: String(known?.requests_per_minute ?? 0),
          concurrent_requests: String(known?.concurrent_requests ?? 0),
          tokens_per_day: String(known?.tokens_per_day ?? 0),
        },
      ];
    }),
  );
}

function SetTerms({ account, terms }: { account: Account; terms: Agreed }) {
  const done = useDone();
  const [rate, setRate] = useState(String(terms.requests_per_minute));
  const [discount, setDiscount] = useState(String(terms.discount_basis_points / 100));
  const [priority, setPriority] = useState(terms.priority);
  const [typed, setTyped] = useState(typedOf(terms));
  return (
    <Act
      label="Set terms"
      title="Replace what was agreed?"
      permission={needs['PUT /api/v1/admin/accounts/{account_id}/terms']}
      facts={[
        ['To whom', account.name || account.account_id],
        ['Who pays the discount', 'the platform; providers earn the same'],
        ['Second person', 'none is needed'],
      ]}
      reason="Why, in 1 to 200 characters, such as the contract. It is kept with the terms."
      fields={(form) => (
        <Stack gap="sm">
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TextInput
              label="Discount in percent"
              description="Of what credit pays, from 0 to 90."
              value={discount}
              onChange={(event) => setDiscount(event.currentTarget.value.trim())}
              error={form.of('discount')}
              inputMode="decimal"
            />
            <TextInput
              label="Requests a minute"
              description="All keys and categories together. 0 is without bound."
              value={rate}
              onChange={(event) => setRate(event.currentTarget.value.trim())}
              error={form.of('requests_per_minute')}
              inputMode="numeric"
            />
          </SimpleGrid>
          <Checkbox
            label="Waits ahead of others while all providers of a model are busy"
            checked={priority}
            onChange={(event) => setPriority(event.currentTarget.checked)}
          />
          {Object.entries(typed).map(([category, values]) => (
            <CategoryFields
              key={category}
              category={category}
              values={values}
              set={(next) => setTyped({ ...typed, [category]: next })}
            />
          ))}
        </Stack>
      )}
      params={['discount', 'requests_per_minute']}
      run={({ reason }) => {
        const body = {
          note: reason,
          terms: {
            requests_per_minute: wholeOf(rate, 'requests_per_minute', 0),
            discount_basis_points: basisPoints(discount),
            priority,
            categories: Object.entries(typed)
              .map(([category, values]) => categoryOf(category, values))
              .filter(isAgreed),
          },
        };
        return answer(
          api.PUT('/api/v1/admin/accounts/{account_id}/terms', {
            params: { path: { account_id: account.account_id } },
            body,
          }),
        );
      }}
      done={() => done('The terms are set.')}
    >
      The terms are replaced as a whole, and count from the next request on. Requests under way keep the discount of
      their admission.
    </Act>
  );
}

function CategoryFields({ category, values, set }: { category: string; values: Typed; set: (next: Typed) => void }) {
  const field = (name: keyof Typed, label: string) => (
    <TextInput
      label={label}
      value={values[name]}
      onChange={(event) => set({ ...values, [name]: event.currentTarget.value.trim() })}
      inputMode="numeric"
    />
  );
  const tokens = category !== 'image' && category !== 'audio';
  return (
    <Fieldset legend={`${category}: 0 leaves the default or is without bound`}>
      <SimpleGrid cols={{ base: 1, xs: 3 }}>
        {field('requests_per_minute', 'Requests a minute (-1: no limit)')}
        {field('concurrent_requests', 'Requests at once')}
        {tokens && field('tokens_per_day', 'Tokens a day')}
      </SimpleGrid>
    </Fieldset>
  );
}

function categoryOf(category: string, values: Typed): Category {
  return {
    category,
    requests_per_minute: wholeOf(values.requests_per_minute, category),
    concurrent_requests: wholeOf(values.concurrent_requests, category, 0),
    tokens_per_day: wholeOf(values.tokens_per_day, category, 0),
  };
}

function isAgreed(one: Category): boolean {
  return one.requests_per_minute !== 0 || one.concurrent_requests !== 0 || one.tokens_per_day !== 0;
}

/** Percent with at most two decimals in hundredths, without rounding. */
function basisPoints(percent: string): number {
  const match = /^(\d{1,2})(?:\.(\d{1,2}))?$/.exec(percent);
  const value = match === null ? NaN : Number((match[1] ?? '') + (match[2] ?? '').padEnd(2, '0'));
  if (!(value <= 9000))
    throw new ApiError('From 0 to 90, with at most two decimals.', {
      status: 400,
      code: 'invalid_value',
      param: 'discount',
    });
  return value;
}
