// What operators agreed with the account.

import { Stack } from '@mantine/core';

import type { Schemas } from '../../api/client';
import { count } from '../../format/quantity';
import { Empty, Loaded, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { useTerms } from './queries';
import { limitText } from './rates';

type Category = Schemas['CategoryTerms'];

export function AgreedTerms() {
  const terms = useTerms();
  return (
    <Section
      title="What was agreed"
      json={terms.data}
      note="It bounds all keys of the account together, beside the limits of each key."
    >
      <Loaded query={terms}>
        {({ terms: agreed }) =>
          agreed === null ? (
            <Empty>Nothing was agreed with this account yet. Ask for it below.</Empty>
          ) : (
            <Stack>
              <Facts
                facts={[
                  ['Discount on what credit pays', `${agreed.discount_basis_points / 100}%`],
                  ['Priority while providers are busy', agreed.priority ? 'Yes' : 'No'],
                  ['Requests a minute, for all keys together', limitText(agreed.requests_per_minute, 'No bound')],
                ]}
              />
              <DataTable
                caption="Terms by category"
                columns={columns}
                rows={agreed.categories}
                id={(one) => one.category}
                empty="No category of models has terms of its own."
              />
            </Stack>
          )
        }
      </Loaded>
    </Section>
  );
}

const columns: Column<Category>[] = [
  { name: 'Category', cell: (one) => one.category },
  { name: 'Requests a minute', numeric: true, cell: (one) => limitText(one.requests_per_minute, 'The default') },
  { name: 'At a time', numeric: true, cell: (one) => limitText(one.concurrent_requests, 'No bound') },
  {
    name: 'Tokens a day (UTC)',
    numeric: true,
    cell: (one) => (one.tokens_per_day === 0 ? 'No bound' : count(one.tokens_per_day)),
  },
];
