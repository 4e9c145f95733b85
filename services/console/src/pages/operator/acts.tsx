import { Alert, Autocomplete, Button, NativeSelect, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { JsonView } from '../../ui/json';
import { Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment } from '../../ui/text';
import { modelPath } from './catalog-data';
import { operatorName } from './history';
import { IdLink } from './links';
import { useCursorList } from './lists';

type ActEntry = Schemas['Act'];

const services = ['billing-ledger', 'catalog', 'provider-hub', 'settlement', 'verifier'];
const defaults = { operator: '', service: '', kind: '', subject: '', since: '', until: '' };

export default function Acts() {
  const [filters, setFilters] = useFilters(defaults);
  const [operator] = useDebouncedValue(filters.operator.trim(), 300);
  const [subject] = useDebouncedValue(filters.subject.trim(), 300);
  const query = {
    operator,
    subject,
    service: filters.service,
    since: instant(filters.since),
    until: instant(filters.until),
  };
  const list = useCursorList(['admin', 'acts', query], (cursor) =>
    answer(api.GET('/api/v1/admin/acts', { params: { query: { ...query, cursor, page_size: 100 } } })),
  );
  const rows = list.pages.flatMap((page) => page.list);
  const missing = [...new Set(list.pages.flatMap((page) => page.missing))];
  const kind = filters.kind.trim().toLowerCase().replaceAll(' ', '_');
  const shown = rows.filter((act) => kind === '' || act.action.includes(kind));
  return (
    <Page title="Audit log" lead="What operators did, over all services. Entries are only ever added.">
      <Section
        title="Acts"
        json={shown}
        note="The newest first. The kind is looked for in what is loaded; the other filters reach all of the log."
      >
        <Stack>
          <Filters filters={filters} set={setFilters} />
          {missing.length > 0 && (
            <Alert color="yellow" variant="light" title="Some acts are missing" role="alert">
              <Stack gap="xs" align="flex-start">
                <Text size="sm">{missing.join(', ')} did not answer, so acts there are not in this list.</Text>
                <Button size="xs" variant="default" onClick={() => void list.query.refetch()}>
                  Ask again
                </Button>
              </Stack>
            </Alert>
          )}
          <Loaded query={list.query}>
            {() => (
              <DataTable
                caption="Acts of operators"
                columns={columns}
                rows={shown}
                id={(act) => `${act.service} ${act.act_id}`}
                empty={
                  rows.length === 0
                    ? 'No act fits these filters.'
                    : 'None of the loaded acts is of this kind. Show more, or change the kind.'
                }
                more={missing.length === 0 ? list.more : undefined}
                loadingMore={list.loadingMore}
              />
            )}
          </Loaded>
        </Stack>
      </Section>
    </Page>
  );
}

/** A moment of the form in RFC 3339; empty for none. */
function instant(local: string): string {
  const at = Date.parse(`${local}Z`);
  return Number.isNaN(at) ? '' : new Date(at).toISOString();
}

type Filter = keyof typeof defaults;

function Filters({
  filters,
  set,
}: {
  filters: Record<Filter, string>;
  set: (change: Partial<Record<Filter, string>>) => void;
}) {
  const operators = useQuery({
    queryKey: ['admin', 'operators'],
    queryFn: () => answer(api.GET('/api/v1/admin/operators')),
  });
  const names = operators.data?.operators.map((one) => `${one.name}@${one.operator_id}`) ?? [];
  return (
    <SimpleGrid cols={{ base: 1, xs: 2, md: 3 }}>
      <Autocomplete
        label="Operator"
        description="name@id, or the name of a machine; empty for all"
        data={names}
        value={filters.operator}
        onChange={(operator) => set({ operator })}
      />
      <NativeSelect
        label="Service"
        description="Where it was done"
        value={filters.service}
        data={[{ value: '', label: 'All' }, ...services]}
        onChange={(event) => set({ service: event.currentTarget.value })}
      />
      <TextInput
        label="Kind"
        description="Part of it, such as refund or freeze"
        value={filters.kind}
        onChange={(event) => set({ kind: event.currentTarget.value })}
      />
      <TextInput
        label="Object"
        description="Its whole id, such as an account’s or a model’s"
        value={filters.subject}
        onChange={(event) => set({ subject: event.currentTarget.value })}
      />
      <TextInput
        type="datetime-local"
        label="From (UTC)"
        description="At this time or later"
        value={filters.since}
        onChange={(event) => set({ since: event.currentTarget.value })}
      />
      <TextInput
        type="datetime-local"
        label="Until (UTC)"
        description="Before this time"
        value={filters.until}
        onChange={(event) => set({ until: event.currentTarget.value })}
      />
    </SimpleGrid>
  );
}

const columns: Column<ActEntry>[] = [
  { name: 'When', cell: (act) => <Moment at={act.at} /> },
  { name: 'Operator', cell: (act) => <span title={act.operator}>{operatorName(act.operator)}</span> },
  { name: 'Act', cell: (act) => act.action.replaceAll('_', ' ') },
  { name: 'Object', cell: (act) => <Subject act={act} /> },
  { name: 'Service', cell: (act) => act.service },
  { name: 'Detail', cell: (act) => <DetailOf act={act} /> },
];

/** Leads to the object where its page is known by the act. */
function Subject({ act }: { act: ActEntry }) {
  if (act.service === 'catalog') return <IdLink value={act.subject} to={modelPath(act.subject)} what="model" />;
  if (accountActs.has(act.action))
    return <IdLink value={act.subject} to={`/accounts/${encodeURIComponent(act.subject)}`} what="account" />;
  return <Id value={act.subject} what="object id" />;
}

/** Acts whose object is an account. */
const accountActs = new Set([
  'create_account',
  'grant_credit',
  'set_limits',
  'set_plan',
  'set_state',
  'set_terms',
  'answer_contact',
  'freeze',
  'lift_freeze',
  'match_transfer',
]);

function DetailOf({ act }: { act: ActEntry }) {
  return (
    <span className="breakable">
      {words(act.detail)} <JsonView value={{ ...act, detail: parsed(act.detail) }} title={`act ${act.act_id}`} />
    </span>
  );
}

/** The members of a detail in short. */
function words(detail: string): string {
  const value = parsed(detail);
  if (typeof value !== 'object' || value === null) return detail.slice(0, 200);
  const text = Object.entries(value)
    .map(
      ([name, member]) =>
        `${name.replaceAll('_', ' ')}: ${typeof member === 'string' ? member : JSON.stringify(member)}`,
    )
    .join('; ');
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}

function parsed(detail: string): unknown {
  try {
    return JSON.parse(detail);
  } catch {
    return detail;
  }
}
