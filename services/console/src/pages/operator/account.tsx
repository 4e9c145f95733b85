import { Anchor, SimpleGrid, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, Facts } from '../../ui/table';
import { Id, Moment, Money, State } from '../../ui/text';
import { GrantCredit, RefundRequest } from './account-credit';
import { Freezes } from './account-freezes';
import { AccountKeys } from './account-keys';
import { AccountLimits } from './account-limits';
import { Payments } from './account-payments';
import { PlanInvoices } from './account-invoices';
import { AccountPlan } from './account-plan';
import { Terms } from './account-terms';
import { ProviderLink } from './links';
import { operatorName } from './history';

type Details = Schemas['GetAccountDetailsResponse'];
export type Account = Schemas['Account'];

export default function AccountPage() {
  const id = useParams().id ?? '';
  const query = useQuery({
    queryKey: ['admin', 'account', id],
    queryFn: () =>
      answer(api.GET('/api/v1/admin/accounts/{account_id}/details', { params: { path: { account_id: id } } })),
  });
  const title = query.data === undefined ? 'Account' : query.data.email || query.data.account?.name || 'Account';
  return (
    <Page title={title} lead="What the account has, may do and did, and what operators may do for it.">
      <Loaded query={query}>
        {(details) => (details.account === null ? null : <Known details={details} account={details.account} />)}
      </Loaded>
    </Page>
  );
}

function Known({ details, account }: { details: Details; account: Account }) {
  return (
    <>
      <SimpleGrid cols={{ base: 1, xs: 3 }}>
        <Figure label="Balance" note="What requests can spend.">
          <Money usd={account.balance_usd_str} />
        </Figure>
        <Figure label="Held" note="Set aside by requests under way.">
          <Money usd={account.held_usd_str} />
        </Figure>
        <Figure
          label="State"
          note={
            account.state === 'open' ? 'Its requests are served.' : 'Its requests are refused. The causes stand below.'
          }
        >
          <State tone={account.state === 'open' ? 'good' : 'bad'}>{account.state}</State>
        </Figure>
      </SimpleGrid>
      <Section title="The account" json={details} actions={<GrantCredit account={account} />}>
        <Facts
          facts={[
            ['Id', <Id key="id" value={account.account_id} what="account id" full />],
            ['Name', account.name || '–'],
            ['User', details.email || 'none'],
            [
              'Provider',
              details.provider_id === '' ? 'none' : <ProviderLink key="provider" id={details.provider_id} />,
            ],
            ['Opened', <Moment key="created" at={account.created_at} />],
          ]}
        />
      </Section>
      <Freezes account={account} debts={details.debts} />
      <Refunds account={account} />
      <Payments account={account} />
      <Entries entries={details.entries} />
      <AccountLimits account={account} limits={details.limits} />
      <AccountPlan account={account} />
      <PlanInvoices account={account} />
      <Terms account={account} />
      <AccountKeys account={account} keys={details.keys} />
      <Actions actions={details.actions} accountId={account.account_id} />
    </>
  );
}

function Refunds({ account }: { account: Account }) {
  return (
    <Section
      title="Refund a request"
      note="A consumer finds the id of a request in its receipt. A plan is refunded by its invoice below."
    >
      <RefundRequest account={account} />
    </Section>
  );
}

function Entries({ entries }: { entries: Schemas['AccountEntry'][] }) {
  return (
    <Section
      title="Last entries"
      json={entries}
      note="The last 20 of the ledger that moved its credit, the newest first."
    >
      <DataTable
        caption="Last entries"
        columns={[
          { name: 'When', cell: (entry) => <Moment at={entry.at} /> },
          { name: 'Kind', cell: (entry) => entry.kind.replaceAll('_', ' ') },
          { name: 'Memo', cell: (entry) => <span className="breakable">{entry.memo || '–'}</span> },
          { name: 'Entry', cell: (entry) => <Id value={entry.entry_id} what="entry id" /> },
          { name: 'Amount', numeric: true, cell: (entry) => <Money usd={entry.amount_usd_str} /> },
        ]}
        rows={entries}
        id={(entry) => entry.entry_id}
        empty="Nothing has moved its credit yet."
      />
    </Section>
  );
}

function Actions({ actions, accountId }: { actions: Schemas['OperatorAction'][]; accountId: string }) {
  return (
    <Section title="Acts of operators" json={actions} note="The last 20 on this account, the newest first.">
      <DataTable
        caption="Acts of operators on the account"
        columns={[
          { name: 'When', cell: (one) => <Moment at={one.at} /> },
          { name: 'Operator', cell: (one) => operatorName(one.actor) },
          { name: 'Act', cell: (one) => one.action.replaceAll('_', ' ') },
          {
            name: 'Detail',
            cell: (one) => (
              <Text size="xs" className="breakable">
                {one.detail}
              </Text>
            ),
          },
        ]}
        rows={actions}
        id={(one) => `${one.at} ${one.action} ${one.detail}`}
        empty="No operator has acted on it."
      />
      <Anchor component={Link} to={`/acts?subject=${accountId}`} size="sm">
        All of them in the audit log
      </Anchor>
    </Section>
  );
}
