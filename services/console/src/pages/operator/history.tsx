// What operators did to one thing, from the audit log.

import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment } from '../../ui/text';

const columns: Column<Schemas['Act']>[] = [
  { name: 'When', cell: (act) => <Moment at={act.at} /> },
  { name: 'Operator', cell: (act) => operatorName(act.operator) },
  { name: 'Act', cell: (act) => act.action.replaceAll('_', ' ') },
  { name: 'Reason', cell: (act) => <span className="breakable">{reasonOf(act)}</span> },
];

/** The service that keeps the acts; empty for all of them. */
type Service = 'settlement' | 'billing-ledger' | 'provider-hub' | 'catalog' | 'verifier' | '';

/** The acts on a subject, the newest first. */
export function useHistory(subject: string, service: Service) {
  return useQuery({
    queryKey: ['admin', 'history', service, subject],
    queryFn: () => answer(api.GET('/api/v1/admin/acts', { params: { query: { subject, service, page_size: 50 } } })),
    enabled: subject !== '',
  });
}

export function History({ subject, service }: { subject: string; service: Service }) {
  const query = useHistory(subject, service);
  return (
    <Section title="Acts of operators" json={query.data?.list}>
      <Loaded query={query}>
        {(data) => (
          <>
            {data.missing.length > 0 && (
              <Text size="sm">{data.missing.join(', ')} did not answer, so acts may be missing here.</Text>
            )}
            <DataTable
              caption="Acts of operators, the newest first"
              columns={columns}
              rows={data.list}
              id={(act) => `${act.service} ${act.act_id}`}
              empty="No operator has acted on it."
            />
          </>
        )}
      </Loaded>
    </Section>
  );
}

/** Who acted, without the id behind the name. Machines and unknown callers have no id. */
export function operatorName(operator: string): string {
  const name = operator.replace(/^operator:/, '').split('@')[0] ?? '';
  return name === '' ? 'not known' : name;
}

/** The reason within an act's detail, which is a JSON object as text. */
function reasonOf(act: Schemas['Act']): string {
  try {
    const detail: unknown = JSON.parse(act.detail);
    if (typeof detail !== 'object' || detail === null) return '';
    const reason: unknown = 'reason' in detail ? detail.reason : 'reference' in detail ? detail.reference : '';
    return typeof reason === 'string' ? reason : '';
  } catch {
    return '';
  }
}
