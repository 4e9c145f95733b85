// The people who run the platform: who they are, what each may do, and how one becomes one.

import { Group, Select, SimpleGrid, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { useSession } from '../../app/session';
import { useFilters } from '../../ui/filters';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, State, type Tone } from '../../ui/text';
import { RoleNote } from './act';
import { Invitation, type Invited } from './operator-invitation';
import { ChangeRole, End, Invite, Reset } from './operator-acts';
import { purposes, roles } from './role';

type Operator = Schemas['Operator'];

const tones: Record<string, Tone> = { active: 'good', invited: 'busy', ended: 'neutral' };

export default function Operators() {
  const [filters, setFilters] = useFilters({ state: '' });
  const [invited, setInvited] = useState<Invited>();
  const query = useQuery({
    queryKey: ['admin', 'operators'],
    queryFn: () => answer(api.GET('/api/v1/admin/operators')),
  });
  const all = query.data?.operators ?? [];
  const count = (state: string) => all.filter((operator) => operator.state === state).length;
  return (
    <Page
      title="Operators"
      lead="A payout above $10,000 needs two operators. An operator approves payouts from 24 hours after becoming active."
      actions={<Invite onInvited={setInvited} />}
    >
      <SimpleGrid cols={{ base: 1, sm: 3 }} aria-live="polite">
        <Figure label="Active">{query.isSuccess ? count('active') : '–'}</Figure>
        <Figure label="Active admins" note="One always stays.">
          {query.isSuccess
            ? all.filter((operator) => operator.state === 'active' && operator.role === 'admin').length
            : '–'}
        </Figure>
        <Figure label="Invited" note="An invitation is good for a day.">
          {query.isSuccess ? count('invited') : '–'}
        </Figure>
      </SimpleGrid>
      {invited !== undefined && <Invitation invited={invited} onHide={() => setInvited(undefined)} />}
      <Section
        title="All operators"
        json={query.data}
        actions={
          <Select
            size="xs"
            label="State"
            value={filters.state}
            onChange={(value) => setFilters({ state: value ?? '' })}
            allowDeselect={false}
            data={[{ value: '', label: 'All' }, ...Object.keys(tones)]}
          />
        }
      >
        <RoleNote permission="staff" />
        <Loaded query={query}>
          {() => (
            <OperatorTable
              operators={all.filter((operator) => filters.state === '' || operator.state === filters.state)}
              onInvited={setInvited}
            />
          )}
        </Loaded>
      </Section>
      <Roles />
    </Page>
  );
}

function OperatorTable({ operators, onInvited }: { operators: Operator[]; onInvited: (invited: Invited) => void }) {
  const session = useSession();
  const own = session.kind === 'operator' ? session.operator.operator_id : '';
  const columns: Column<Operator>[] = [
    { name: 'Name', cell: (operator) => `${operator.name}${operator.operator_id === own ? ' (you)' : ''}` },
    { name: 'Role', cell: (operator) => operator.role },
    { name: 'State', cell: (operator) => <State tone={tones[operator.state] ?? 'neutral'}>{operator.state}</State> },
    { name: 'Id', cell: (operator) => <Id value={operator.operator_id} what="operator id" /> },
    { name: 'Last seen', cell: (operator) => <Moment at={operator.last_seen_at} withAge /> },
    { name: 'Created', cell: (operator) => <Moment at={operator.created_at} /> },
    {
      name: 'Act',
      cell: (operator) =>
        operator.state === 'ended' ? (
          '–'
        ) : (
          <Group gap="xs">
            <ChangeRole operator={operator} own={operator.operator_id === own} />
            <Reset operator={operator} own={operator.operator_id === own} onInvited={onInvited} />
            <End operator={operator} own={operator.operator_id === own} />
          </Group>
        ),
    },
  ];
  return (
    <DataTable
      caption="Operators by name"
      columns={columns}
      rows={operators}
      id={(operator) => operator.operator_id}
      empty="No operator is in this state."
    />
  );
}

function Roles() {
  return (
    <Section title="Roles" note="Every role reads every page.">
      <dl className="facts">
        {roles.map((role) => (
          <div key={role}>
            <dt>{role}</dt>
            <dd>
              <Text size="sm">{purposes[role]}</Text>
            </dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}
