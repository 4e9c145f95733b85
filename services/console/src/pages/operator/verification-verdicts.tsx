import { Anchor, Checkbox, Group, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { Link } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { Loaded, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { Act } from './act';
import { needs } from './allowed';
import { Detail } from './detail';
import { ProviderLink } from './links';
import { useCursorList, useDone } from './lists';
import { Evidence } from './verification-evidence';
import { families, heldReasons, shareOf } from './verification-words';

type Verdict = Schemas['Verdict'];

/** What the verifier decided. An opened verdict is in the address as `verdict`. */
export function Verdicts() {
  const [filters, setFilters] = useFilters({ provider: '', verdictModel: '', waiting: '', verdict: '' });
  const query = {
    provider_id: filters.provider.trim(),
    model_id: filters.verdictModel.trim(),
    waiting: filters.waiting !== '',
  };
  const list = useCursorList(['admin', 'verification', 'verdicts', query], (cursor) =>
    answer(api.GET('/api/v1/admin/verification/verdicts', { params: { query: { ...query, cursor, page_size: 100 } } })),
  );
  const rows = list.pages.flatMap((page) => page.list);
  const close = () => setFilters({ verdict: '' });
  return (
    <Section title="Verdicts" json={rows} note="The newest first. A penalty has the id of its verdict.">
      <Stack>
        <SimpleGrid cols={{ base: 1, sm: 3 }}>
          <TextInput
            label="Provider"
            description="Its id; empty for all"
            value={filters.provider}
            onChange={(event) => setFilters({ provider: event.currentTarget.value })}
          />
          <TextInput
            label="Model"
            description="Its id; empty for all"
            value={filters.verdictModel}
            onChange={(event) => setFilters({ verdictModel: event.currentTarget.value })}
          />
          <Checkbox
            mt={{ base: 0, sm: 32 }}
            label="Only those that wait for an operator"
            checked={filters.waiting !== ''}
            onChange={(event) => setFilters({ waiting: event.currentTarget.checked ? 'yes' : '' })}
          />
        </SimpleGrid>
        <Loaded query={list.query}>
          {() => (
            <DataTable
              caption="Verdicts"
              columns={columns}
              rows={rows}
              id={(one) => one.verdict_id}
              onOpen={(one) => setFilters({ verdict: one.verdict_id })}
              empty={query.waiting ? 'No verdict waits for an operator.' : 'The verifier has decided nothing yet.'}
              more={list.more}
              loadingMore={list.loadingMore}
            />
          )}
        </Loaded>
      </Stack>
      <Detail title="Verdict" open={filters.verdict !== ''} onClose={close}>
        {filters.verdict !== '' && (
          <Evidence verdictId={filters.verdict} known={rows.find((one) => one.verdict_id === filters.verdict)}>
            {(verdict) => <Opened verdict={verdict} />}
          </Evidence>
        )}
      </Detail>
    </Section>
  );
}

const columns: Column<Verdict>[] = [
  { name: 'Verdict', cell: (one) => `${one.kind}, ${one.trigger.replaceAll('_', ' ')}` },
  { name: 'When', cell: (one) => <Moment at={one.at} /> },
  { name: 'Provider', cell: (one) => <ProviderLink id={one.provider_id} /> },
  { name: 'Model', cell: (one) => <span className="breakable">{one.model_id}</span> },
  { name: 'Takes', cell: takes },
  { name: 'Standing', cell: (one) => <Standing verdict={one} /> },
];

function takes(verdict: Verdict): string {
  if (verdict.share_basis_points === 0) return verdict.removes ? 'removal' : 'nothing';
  return `${shareOf(verdict.share_basis_points)}${verdict.removes ? ' and removal' : ''}`;
}

function Standing({ verdict }: { verdict: Verdict }) {
  if (verdict.end !== '') return <State tone={verdict.end === 'executed' ? 'bad' : 'neutral'}>{verdict.end}</State>;
  if (verdict.needs_operator) return <State tone="warning">needs an operator</State>;
  return verdict.share_basis_points > 0 ? <State tone="busy">open</State> : <State>done</State>;
}

function Opened({ verdict }: { verdict: Verdict }) {
  return (
    <Section title="The verdict" json={verdict}>
      <Text mb="sm" className="breakable">
        {verdict.summary}
      </Text>
      <Facts
        facts={[
          ['Id', <Id key="id" value={verdict.verdict_id} what="verdict id" full />],
          ['Provider', <ProviderLink key="provider" id={verdict.provider_id} />],
          ['Model', verdict.model_id],
          ['When', <Moment key="at" at={verdict.at} withAge />],
          ['Kind', verdict.kind],
          ['Moved by', verdict.trigger.replaceAll('_', ' ')],
          ['Family that leads', verdict.family === '' ? '–' : (families[verdict.family] ?? verdict.family)],
          ['Takes', takes(verdict)],
          ['Standing', <Standing key="standing" verdict={verdict} />],
          ['Ended', <Moment key="ended" at={verdict.ended_at} />],
          ['About the verdict', <Id key="of" value={verdict.of_verdict_id} what="verdict id" />],
        ]}
      />
      {verdict.share_basis_points > 0 && (
        <Anchor
          component={Link}
          to={`/penalties?state=&provider=${verdict.provider_id}&penalty=${verdict.verdict_id}`}
          size="sm"
        >
          The penalty
        </Anchor>
      )}
      {verdict.needs_operator && verdict.end === '' && <Decide verdict={verdict} />}
    </Section>
  );
}

/** The word of an operator that a removal needs, beside the verifier's. */
function Decide({ verdict }: { verdict: Verdict }) {
  const done = useDone();
  const permission = needs['POST /api/v1/admin/verification/verdicts/{verdict_id}/approve'];
  const facts: [string, string][] = [
    ['To whom', `provider ${verdict.provider_id}`],
    ['Takes', takes(verdict)],
    ['Second person', 'none: the verifier decided, and yours is the second word'],
  ];
  function say(refuse: boolean) {
    const path = { verdict_id: verdict.verdict_id };
    return answer(
      api.POST('/api/v1/admin/verification/verdicts/{verdict_id}/approve', { params: { path }, body: { refuse } }),
    );
  }
  return (
    <Group mt="sm">
      <Act
        label="Agree"
        title="Agree to the penalty and the removal?"
        permission={permission}
        destructive
        facts={facts}
        run={() => say(false)}
        done={({ held }) =>
          done(held === '' ? 'The penalty is opened.' : `Your word is kept. It waits: ${heldReasons[held] ?? held}.`)
        }
      >
        {shareOf(verdict.share_basis_points)} of the collateral goes into escrow at once, and the provider is removed
        from the network: it is rejected and its keys are revoked. It can appeal for 48 hours. The first word stays, so
        you cannot change yours.
      </Act>
      <Act
        label="Refuse"
        title="Refuse the penalty?"
        permission={permission}
        destructive
        facts={facts}
        run={() => say(true)}
        done={() => done('The penalty is refused.')}
      >
        Nothing is taken and nobody is removed. The observations that led to it are void. The first word stays, so you
        cannot change yours.
      </Act>
    </Group>
  );
}
