// One day with its batches, and the leave of an operator to let it go.

import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { count } from '../../format/quantity';
import { Empty, Loaded, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Money, Moment, State } from '../../ui/text';
import { Act } from './act';
import { useChainName } from './chain-names';
import { Detail } from './detail';
import { History } from './history';
import { useDone } from './lists';

export function DayDetail({ day, onClose }: { day: string; onClose: () => void }) {
  const query = useQuery({
    queryKey: ['admin', 'batches', 'day', day],
    queryFn: () =>
      answer(api.GET('/api/v1/admin/batches', { params: { query: { before: dayAfter(day), page_size: 1 } } })),
    enabled: day !== '',
  });
  return (
    <Detail title={`Day ${day}`} open={day !== ''} onClose={onClose}>
      <Loaded query={query}>
        {(data) => {
          const found = data.list.find((one) => one.day === day);
          return found === undefined ? <Empty>This day is not collected.</Empty> : <Day day={found} />;
        }}
      </Loaded>
      {day !== '' && <History subject={day} service="settlement" />}
    </Detail>
  );
}

function Day({ day }: { day: Schemas['BatchDay'] }) {
  const name = useChainName();
  const columns: Column<Schemas['ChainBatch']>[] = [
    { name: 'Chain', cell: (batch) => name(batch.chain_id) },
    { name: 'Providers', numeric: true, cell: (batch) => count(batch.shares) },
    { name: 'Total', numeric: true, cell: (batch) => <Money usd={batch.total_usd_str} /> },
    { name: 'Not posted', numeric: true, cell: (batch) => count(batch.unposted) },
    { name: 'Not signed', numeric: true, cell: (batch) => count(batch.unsigned) },
    { name: 'Merkle root', cell: (batch) => <Id value={batch.root} what="root" /> },
  ];
  return (
    <>
      <Section title="The day" json={day} actions={day.state === 'waiting' ? <AllowDay day={day} /> : undefined}>
        <Facts
          facts={[
            [
              'State',
              <State key="state" tone={day.state === 'waiting' ? 'warning' : 'good'}>
                {day.state}
              </State>,
            ],
            ['Lines', count(day.lines)],
            ['Lines on the ledger’s word alone', count(day.filled)],
            ['Collected', <Moment key="collected" at={day.collected_at} />],
            ['Committed', <Moment key="committed" at={day.committed_at} />],
          ]}
        />
      </Section>
      <Section
        title="Batches"
        note="One batch for each chain. Its root commits to every provider's share, which the statement of the provider proves."
      >
        <DataTable
          caption="Batches of the day by chain"
          columns={columns}
          rows={day.batches}
          id={(batch) => batch.chain_id}
          empty="The batches are made once the day is committed."
        />
      </Section>
    </>
  );
}

export function AllowDay({ day }: { day: Schemas['BatchDay'] }) {
  const done = useDone();
  return (
    <Act
      label="Let the day go"
      title={`Let ${day.day} go?`}
      permission="pay"
      facts={[
        ['Day (UTC)', day.day],
        ['Lines', count(day.lines)],
        ['To whom', 'Every provider with earnings on that day'],
        ['Second person', 'None is needed'],
      ]}
      reason="Why it may go. The audit log keeps it. 1 to 500 characters."
      run={({ reason }) =>
        answer(api.POST('/api/v1/admin/batches/{day}/allow', { params: { path: { day: day.day } }, body: { reason } }))
      }
      done={() => done(`${day.day} may go.`)}
    >
      The day is batched although more than 1% of its requests rest on the ledger&apos;s word alone. Its earnings become
      payable to providers within minutes. A batch is never changed; a mistake is corrected by a later day. Days that
      wait behind it go, too.
    </Act>
  );
}

/** The day after a day, in UTC; the day itself where it is none. */
function dayAfter(day: string): string {
  const at = Date.parse(`${day}T00:00:00Z`);
  return Number.isNaN(at) ? day : new Date(at + 86_400_000).toISOString().slice(0, 10);
}
