import { Anchor, NativeSelect, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { Link } from 'react-router';

import { answer, api } from '../../api/client';
import { useNow } from '../../app/live';
import { units } from '../../format/money';
import { duration } from '../../format/quantity';
import { useFilters } from '../../ui/filters';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { useChainName } from './chain-names';
import { Detail } from './detail';
import { History } from './history';
import { ProviderLink } from './links';
import { useCountedList } from './lists';
import { Resolve } from './penalty-resolve';
import { penaltyStates, penaltyTone, stateMeanings, stateWord, type Penalty, type PenaltyPart } from './penalty-words';
import { families, shareOf } from './verification-words';

export default function Penalties() {
  const [filters, setFilters] = useFilters({ state: 'appealed', provider: '', penalty: '' });
  const state = penaltyStates.find((one) => stateWord(one) === filters.state);
  const list = useCountedList(['admin', 'penalties', state ?? ''], (page) =>
    answer(api.GET('/api/v1/admin/penalties', { params: { query: { state, page, page_size: 100 } } })),
  );
  const provider = filters.provider.trim();
  const shown = list.rows.filter((one) => provider === '' || one.provider_id === provider);
  const opened = list.rows.find((one) => one.penalty_id === filters.penalty);
  return (
    <Page
      title="Penalties and appeals"
      lead="A penalty puts collateral into escrow. It is forfeited after 48 hours without an appeal, or when an appeal is refused."
    >
      <Loaded query={list.query}>
        {() => (
          <>
            {filters.state === 'appealed' && (
              <Figure label="Appeals that wait for you" note="The clock stands still until one of you decides.">
                {list.total}
              </Figure>
            )}
            <Section title="Penalties" json={shown} note="The newest first.">
              <Stack>
                <Filters filters={filters} set={setFilters} />
                <DataTable
                  caption="Penalties"
                  columns={columns}
                  rows={shown}
                  id={(one) => one.penalty_id}
                  onOpen={(one) => setFilters({ penalty: one.penalty_id })}
                  empty={
                    filters.state === 'appealed'
                      ? 'No appeal waits. Choose another state to see the rest.'
                      : 'No penalty fits these filters.'
                  }
                  more={list.more}
                  loadingMore={list.loadingMore}
                />
              </Stack>
            </Section>
          </>
        )}
      </Loaded>
      <Detail title="Penalty" open={opened !== undefined} onClose={() => setFilters({ penalty: '' })}>
        {opened !== undefined && <Opened penalty={opened} />}
      </Detail>
    </Page>
  );
}

type FilterName = 'state' | 'provider' | 'penalty';

function Filters({
  filters,
  set,
}: {
  filters: Record<FilterName, string>;
  set: (change: Partial<Record<FilterName, string>>) => void;
}) {
  return (
    <SimpleGrid cols={{ base: 1, xs: 2 }}>
      <NativeSelect
        label="State"
        description="Only these"
        value={filters.state}
        data={[...penaltyStates.map(stateWord), { value: '', label: 'All' }]}
        onChange={(event) => set({ state: event.currentTarget.value })}
      />
      <TextInput
        label="Provider"
        description="Its id; empty for all"
        value={filters.provider}
        onChange={(event) => set({ provider: event.currentTarget.value })}
      />
    </SimpleGrid>
  );
}

const columns: Column<Penalty>[] = [
  {
    name: 'Penalty',
    cell: (one) => `${one.kind}, ${shareOf(one.share_basis_points)}${one.removes ? ' and removal' : ''}`,
  },
  { name: 'State', cell: (one) => <State tone={penaltyTone(one.state)}>{stateWord(one.state)}</State> },
  { name: 'Provider', cell: (one) => <ProviderLink id={one.provider_id} /> },
  { name: 'Model', cell: (one) => <span className="breakable">{one.model_id}</span> },
  { name: 'Opened', cell: (one) => <Moment at={one.opened_at} withAge /> },
  { name: 'To appeal', cell: (one) => <Left penalty={one} /> },
];

/** The hours that are left of 48. An appeal stops the clock. */
function Left({ penalty }: { penalty: Penalty }) {
  const now = useNow();
  if (penalty.state === 'PENALTY_STATE_APPEALED') return <>stopped</>;
  if (penalty.state !== 'PENALTY_STATE_PROPOSED' || penalty.appeal_until === null) return <>–</>;
  const left = (Date.parse(penalty.appeal_until) - now) / 1000;
  return <>{left > 0 ? duration(left) : 'over'}</>;
}

function Opened({ penalty }: { penalty: Penalty }) {
  const id = penalty.penalty_id;
  return (
    <>
      <Section title="Standing" json={penalty}>
        <Text mb="sm" component="div">
          <State tone={penaltyTone(penalty.state)}>{stateWord(penalty.state)}</State> {stateMeanings[penalty.state]}
        </Text>
        <Facts
          facts={[
            ['Id', <Id key="id" value={id} what="penalty id" full />],
            ['Provider', <ProviderLink key="provider" id={penalty.provider_id} />],
            ['Model', penalty.model_id],
            ['Kind', penalty.kind],
            ['Evidence', penalty.family === '' ? '–' : (families[penalty.family] ?? penalty.family)],
            ['Share of the collateral', shareOf(penalty.share_basis_points)],
            ['Removed from the network', penalty.removes ? 'yes' : 'no'],
            ['Opened', <Moment key="opened" at={penalty.opened_at} withAge />],
            ['To be appealed until', <Moment key="until" at={penalty.appeal_until} withAge />],
            ['Appealed', <Moment key="appealed" at={penalty.appealed_at} withAge />],
            ['Decided', <Moment key="resolved" at={penalty.resolved_at} />],
            ['Executed', <Moment key="executed" at={penalty.executed_at} />],
            ['Reason of the decision', penalty.resolution || '–'],
          ]}
        />
        <Resolve penalty={penalty} />
      </Section>
      <Section title="What was measured" note="The provider reads this, too.">
        <Text className="breakable">{penalty.summary}</Text>
        <Anchor component={Link} to={`/verification?tab=verdicts&verdict=${id}`} size="sm">
          Verdict and evidence
        </Anchor>
      </Section>
      {penalty.appeal_text !== '' && (
        <Section title="What the provider says">
          <Text className="breakable" style={{ whiteSpace: 'pre-wrap' }}>
            {penalty.appeal_text}
          </Text>
        </Section>
      )}
      <Parts parts={penalty.parts} />
      <History subject={id} service="settlement" />
    </>
  );
}

function Parts({ parts }: { parts: PenaltyPart[] }) {
  const chainName = useChainName();
  return (
    <Section
      title="What it takes"
      json={parts}
      note="Amounts were fixed when the penalty was opened, and do not follow prices."
    >
      <DataTable
        caption="Parts of the penalty"
        columns={[
          { name: 'From', cell: (part) => (part.chain_id === 0 ? 'what was paid by card' : chainName(part.chain_id)) },
          { name: 'Depositor', cell: (part) => <Id value={part.depositor} what="depositor" /> },
          { name: 'Amount', numeric: true, cell: (part) => amount(part) },
          { name: 'State', cell: (part) => <State>{part.state}</State> },
        ]}
        rows={parts}
        id={(part) => `${part.chain_id} ${part.depositor}`}
        empty="The penalty found no collateral."
      />
    </Section>
  );
}

function amount(part: PenaltyPart): string {
  return part.chain_id === 0
    ? `${units(part.amount, 9)} USD`
    : `${units(part.amount, part.token_decimals)} ${part.token_symbol}`;
}
