// What an admin does to operators.

import { Select, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { signedOut } from '../../api/session';
import { Act } from './act';
import { useDone } from './lists';
import type { Invited } from './operator-invitation';
import { purposes, roles, type Role } from './role';

type Operator = Schemas['Operator'];

const roleOptions = roles.map((role) => ({ value: role, label: `${role}: ${purposes[role]}` }));

function roleOf(value: string | null): Role {
  return roles.find((role) => role === value) ?? 'viewer';
}

export function Invite({ onInvited }: { onInvited: (invited: Invited) => void }) {
  const done = useDone();
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>('viewer');
  return (
    <Act
      label="Invite"
      title="Invite an operator?"
      permission="staff"
      size="sm"
      facts={[
        ['May then', purposes[role]],
        ['Second person', 'None is needed'],
      ]}
      params={['name', 'role']}
      fields={(form) => (
        <>
          <TextInput
            label="Name"
            description="1 to 27 of a-z, 0-9, '.', '_' and '-'. The audit log shows it. A name is given once and never again."
            autoComplete="off"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={form.of('name')}
            data-autofocus
          />
          <RoleSelect value={role} onChange={setRole} error={form.of('role')} />
        </>
      )}
      run={() => answer(api.POST('/api/v1/admin/operators', { body: { name: name.trim(), role } }))}
      done={(answered) => {
        onInvited({
          name: answered.operator?.name ?? name.trim(),
          invitation: answered.invitation,
          expires_at: answered.expires_at,
        });
        setName('');
        done('The operator is invited.');
      }}
    >
      An invitation is made that is good for a day and once. The next page shows it this once; hand it over to the
      person.
    </Act>
  );
}

function RoleSelect({
  value,
  onChange,
  error,
}: {
  value: Role;
  onChange: (role: Role) => void;
  error: string | undefined;
}) {
  return (
    <Select
      label="Role"
      value={value}
      onChange={(next) => onChange(roleOf(next))}
      allowDeselect={false}
      data={roleOptions}
      error={error}
    />
  );
}

export function ChangeRole({ operator, own }: { operator: Operator; own: boolean }) {
  const done = useDone();
  const [role, setRole] = useState<Role>(roleOf(operator.role));
  return (
    <Act
      label="Role"
      title={`Give ${operator.name} another role?`}
      permission="staff"
      facts={[
        ['Operator', operator.name],
        ['Role now', operator.role],
        ['May then', purposes[role]],
        ['Second person', 'None is needed'],
      ]}
      params={['role']}
      fields={(form) => <RoleSelect value={role} onChange={setRole} error={form.of('role')} />}
      run={() =>
        answer(
          api.PATCH('/api/v1/admin/operators/{operator_id}', {
            params: { path: { operator_id: operator.operator_id } },
            body: { role },
          }),
        )
      }
      done={() => done(`${operator.name} has the role ${role}.`)}
    >
      The role counts from the next call of the operator on.{' '}
      {own && 'This is you: with a lesser role you cannot take it back yourself. '}
      The last admin keeps the role.
    </Act>
  );
}

interface ResetProps {
  operator: Operator;
  own: boolean;
  onInvited: (invited: Invited) => void;
}

export function Reset({ operator, own, onInvited }: ResetProps) {
  const done = useDone();
  return (
    <Act
      label="Reset"
      title={`Reset ${operator.name}?`}
      permission="staff"
      destructive
      blocked={own ? 'You cannot reset yourself. Another admin can.' : ''}
      facts={[
        ['Operator', `${operator.name}, ${operator.role}`],
        ['Second person', 'None is needed'],
      ]}
      run={() =>
        answer(
          api.POST('/api/v1/admin/operators/{operator_id}/reset', {
            params: { path: { operator_id: operator.operator_id } },
            body: {},
          }),
        )
      }
      done={(answered) => {
        onInvited({ name: operator.name, invitation: answered.invitation, expires_at: answered.expires_at });
        done(`${operator.name} is reset.`);
      }}
    >
      The password, the codes and all sessions of the operator end at once, and a new invitation is made. After it is
      accepted, the operator approves payouts again only after 24 hours. Reset who lost a password or the device with
      the codes.
    </Act>
  );
}

export function End({ operator, own }: { operator: Operator; own: boolean }) {
  const done = useDone();
  const queries = useQueryClient();
  return (
    <Act
      label="End"
      title={`End ${operator.name} for good?`}
      permission="staff"
      destructive
      facts={[
        ['Operator', `${operator.name}, ${operator.role}`],
        ['Second person', 'None is needed'],
      ]}
      run={() =>
        answer(
          api.POST('/api/v1/admin/operators/{operator_id}/end', {
            params: { path: { operator_id: operator.operator_id } },
            body: {},
          }),
        )
      }
      done={() => {
        if (!own) return done(`${operator.name} has ended.`);
        signedOut();
        queries.clear();
      }}
    >
      All sessions of the operator end at once, and nobody else is given the name. What the operator did stays in the
      audit log. This cannot be taken back. {own && 'This is you: you are signed out. '}The last admin cannot be ended.
    </Act>
  );
}
