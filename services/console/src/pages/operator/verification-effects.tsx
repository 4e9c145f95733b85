import { answer, api, type Schemas } from '../../api/client';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment } from '../../ui/text';
import { Act, RoleNote } from './act';
import { needs } from './allowed';
import { IdLink, ProviderLink } from './links';
import { useCursorList, useDone } from './lists';

type Effect = Schemas['Effect'];

const kinds: Record<string, string> = {
  report_benchmark: 'tell the hub of a benchmark',
  expel: 'remove the provider',
  reinstate: 'let the provider back in',
  open_penalty: 'open a penalty',
};

const permission = needs['POST /api/v1/admin/verification/effects/{effect_id}/retry'];

export function Effects() {
  const list = useCursorList(['admin', 'verification', 'effects'], (cursor) =>
    answer(api.GET('/api/v1/admin/verification/effects', { params: { query: { cursor, page_size: 100 } } })),
  );
  const rows = list.pages.flatMap((page) => page.list);
  return (
    <Section
      title="Refused effects"
      json={rows}
      note="What verdicts should bring about elsewhere, and was refused for good. The oldest first. Mend the cause, then try again."
    >
      <RoleNote permission={permission} />
      <Loaded query={list.query}>
        {() => (
          <DataTable
            caption="Effects that were refused"
            columns={columns}
            rows={rows}
            id={(effect) => effect.effect_id}
            empty="No effect was refused."
            more={list.more}
            loadingMore={list.loadingMore}
          />
        )}
      </Loaded>
    </Section>
  );
}

const columns: Column<Effect>[] = [
  { name: 'Effect', cell: (effect) => kinds[effect.kind] ?? effect.kind.replaceAll('_', ' ') },
  { name: 'Id', cell: (effect) => <Id value={effect.effect_id} what="effect id" /> },
  { name: 'Provider', cell: (effect) => <ProviderLink id={effect.provider_id} /> },
  {
    name: 'Verdict',
    cell: (effect) => (
      <IdLink value={effect.verdict_id} to={`/verification?tab=verdicts&verdict=${effect.verdict_id}`} what="verdict" />
    ),
  },
  { name: 'Refused because', cell: (effect) => <span className="breakable">{effect.problem}</span> },
  { name: 'Tries', numeric: true, cell: (effect) => effect.tries },
  { name: 'Since', cell: (effect) => <Moment at={effect.created_at} withAge /> },
  { name: 'Act', cell: (effect) => <Retry effect={effect} /> },
];

function Retry({ effect }: { effect: Effect }) {
  const done = useDone();
  return (
    <Act
      label="Try again"
      title="Try the effect again?"
      permission={permission}
      facts={[
        ['Effect', kinds[effect.kind] ?? effect.kind],
        ['To whom', `provider ${effect.provider_id}`],
        ['Second person', 'none is needed'],
      ]}
      run={() =>
        answer(
          api.POST('/api/v1/admin/verification/effects/{effect_id}/retry', {
            params: { path: { effect_id: effect.effect_id } },
            body: {},
          }),
        )
      }
      done={() => done('It is tried again. If it is refused once more, it comes back to this list.')}
    >
      The other service is asked once more, with the same words. Later effects of the provider wait for it, in their
      order.
    </Act>
  );
}
