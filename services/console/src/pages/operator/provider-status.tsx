// What operators say of a provider's status: reviews, suspensions, qualification, references.

import { Group, List, Text } from '@mantine/core';

import { answer, api } from '../../api/client';
import { Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Moment, State } from '../../ui/text';
import { Act, RoleNote } from './act';
import { needs } from './allowed';
import { useDone } from './lists';
import { statusWord, type Provider, type Status } from './provider-words';

interface Step {
  to: Status;
  label: string;
  /** The statuses in which the step can be taken. */
  from: Status[];
  destructive?: boolean;
  what: string;
  done: string;
}

const connectable: Status[] = [
  'PROVIDER_STATUS_PENDING',
  'PROVIDER_STATUS_UNDER_REVIEW',
  'PROVIDER_STATUS_APPROVED',
  'PROVIDER_STATUS_ACTIVATING',
  'PROVIDER_STATUS_ACTIVE',
];

const steps: Step[] = [
  {
    to: 'PROVIDER_STATUS_APPROVED',
    label: 'Approve the application',
    from: ['PROVIDER_STATUS_UNDER_REVIEW'],
    what: 'The review ends. It becomes active by itself once collateral, machine and benchmark are there. An approval replaces none.',
    done: 'The application is approved.',
  },
  {
    to: 'PROVIDER_STATUS_REJECTED',
    label: 'Reject the application',
    from: ['PROVIDER_STATUS_UNDER_REVIEW'],
    destructive: true,
    what: 'It cannot connect any more, and may ask again after 7 days. It reads your reason. Its proposed addresses lapse.',
    done: 'The application is rejected.',
  },
  {
    to: 'PROVIDER_STATUS_UNDER_REVIEW',
    label: 'Begin a review',
    from: ['PROVIDER_STATUS_PENDING', 'PROVIDER_STATUS_REJECTED'],
    what: 'The provider is under review, as if it had asked. One that was rejected waits until 7 days after the rejection.',
    done: 'The review has begun.',
  },
  {
    to: 'PROVIDER_STATUS_PENDING',
    label: 'Lift the suspension',
    from: ['PROVIDER_STATUS_SUSPENDED'],
    what:
      'Only what an operator began ends; what settlement began ends by itself. If no cause is left, the provider is pending. ' +
      'It may connect again, and has to pass another benchmark.',
    done: 'The operator’s cause is lifted.',
  },
  {
    to: 'PROVIDER_STATUS_PENDING',
    label: 'Withdraw the activation',
    from: ['PROVIDER_STATUS_APPROVED', 'PROVIDER_STATUS_ACTIVATING', 'PROVIDER_STATUS_ACTIVE'],
    destructive: true,
    what:
      'It is pending and gets no new requests. The confirmation of its collateral and a waiver of the GPU rule are withdrawn. ' +
      'Requests under way finish and are paid.',
    done: 'The activation is withdrawn.',
  },
  {
    to: 'PROVIDER_STATUS_SUSPENDED',
    label: 'Suspend',
    from: [...connectable, 'PROVIDER_STATUS_REJECTED', 'PROVIDER_STATUS_SUSPENDED'],
    destructive: true,
    what:
      'It gets no new requests, and cannot connect until an operator lifts the suspension. ' +
      'Requests under way finish and are paid. Its earnings stay.',
    done: 'The provider is suspended.',
  },
];

/** The steps of a review and of a suspension. What the status does not allow is absent. */
export function StatusActs({ provider }: { provider: Provider }) {
  const done = useDone();
  const permission = needs['POST /api/v1/admin/providers/{provider_id}/status'];
  const admin = provider.suspensions.some((one) => one.cause === 'SUSPENSION_CAUSE_ADMIN');
  function blocked(step: Step): string {
    if (step.label === 'Lift the suspension' && !admin)
      return 'No operator suspended this provider. What did ends by itself.';
    return step.label === 'Suspend' && admin ? 'An operator has suspended it already.' : '';
  }
  return (
    <Section title="Status" note="Every step is kept in the history, with your name and the reason.">
      <RoleNote permission={permission} />
      <Group>
        {steps
          .filter((step) => step.from.includes(provider.status))
          .map((step) => (
            <Act
              key={step.label}
              label={step.label}
              title={`${step.label}?`}
              permission={permission}
              blocked={blocked(step)}
              destructive={step.destructive}
              facts={[
                ['To whom', provider.name || provider.provider_id],
                ['Status', `${statusWord(provider.status)} → ${statusWord(step.to)}`],
                ['Second person', 'none is needed'],
              ]}
              reason={
                step.to === 'PROVIDER_STATUS_REJECTED'
                  ? 'Why, in at most 200 characters. The provider reads it.'
                  : 'Why, in at most 200 characters, for the audit. The provider does not read it.'
              }
              run={({ reason }) => setStatus(provider, step.to, reason)}
              done={() => done(step.done)}
            >
              {step.what}
            </Act>
          ))}
      </Group>
    </Section>
  );
}

function setStatus(provider: Provider, status: Status, reason: string) {
  const path = { provider_id: provider.provider_id };
  return answer(
    api.POST('/api/v1/admin/providers/{provider_id}/status', { params: { path }, body: { status, reason } }),
  );
}

interface Word {
  label: string;
  body: { collateral?: boolean; gpu_waived?: boolean };
  what: string;
  destructive?: boolean;
}

function wordsOf(provider: Provider): Word[] {
  const facts = provider.qualification;
  if (facts === null) return [];
  return [
    facts.collateral_confirmed
      ? {
          label: 'Withdraw the collateral',
          body: { collateral: false },
          destructive: true,
          what: 'The collateral does not count any more. A provider that is active, approved or activating is pending from then on.',
        }
      : {
          label: 'Confirm the collateral',
          body: { collateral: true },
          what: 'The collateral counts as if settlement had confirmed it. Settlement’s next word on it counts again.',
        },
    facts.gpu_waived
      ? {
          label: 'Withdraw the waiver',
          body: { gpu_waived: false },
          destructive: true,
          what: 'The GPU rule counts again. A provider that is active and has no machine that fulfils the rule is pending from then on.',
        }
      : {
          label: 'Waive the GPU rule',
          body: { gpu_waived: true },
          what: 'The provider needs no machine that fulfils the rule. This is for external endpoints and for machines that report no GPU.',
        },
  ];
}

/** What activation needs, and what an operator may say of it. */
export function Qualification({ provider }: { provider: Provider }) {
  const done = useDone();
  const permission = needs['POST /api/v1/admin/providers/{provider_id}/qualification'];
  const facts = provider.qualification;
  if (facts === null) return null;
  return (
    <Section
      title="Qualification"
      json={facts}
      note="A provider becomes active by itself once all three hold. Whether a benchmark is passed the verifier alone says."
    >
      <Facts
        facts={[
          ['Collateral', <Holds key="collateral" holds={facts.collateral_confirmed} yes="confirmed" no="missing" />],
          [
            'GPU rule',
            <Holds
              key="gpu"
              holds={facts.gpu_eligible}
              yes={facts.gpu_waived ? 'waived' : 'fulfilled'}
              no={facts.gpu_shortfall || 'not fulfilled'}
            />,
          ],
          ['Benchmark', <Holds key="benchmark" holds={facts.benchmark_passed} yes="passed" no="missing or expired" />],
          ['Benchmark expires', <Moment key="expires" at={facts.benchmark_expires_at} withAge />],
        ]}
      />
      <RoleNote permission={permission} />
      <Group mt="sm">
        {wordsOf(provider).map((word) => (
          <Act
            key={word.label}
            label={word.label}
            title={`${word.label}?`}
            permission={permission}
            blocked={provider.vendor ? 'A vendor is active without qualification.' : ''}
            destructive={word.destructive}
            facts={[
              ['To whom', provider.name || provider.provider_id],
              ['Second person', 'none is needed'],
            ]}
            reason="Why, in at most 200 characters, for the audit."
            run={({ reason }) =>
              answer(
                api.POST('/api/v1/admin/providers/{provider_id}/qualification', {
                  params: { path: { provider_id: provider.provider_id } },
                  body: { ...word.body, reason },
                }),
              )
            }
            done={() => done('Your word is recorded. The status follows by itself.')}
          >
            {word.what}
          </Act>
        ))}
      </Group>
    </Section>
  );
}

function Holds({ holds, yes, no }: { holds: boolean; yes: string; no: string }) {
  return <State tone={holds ? 'good' : 'warning'}>{holds ? yes : no}</State>;
}

/** A reference scores the answers of others. */
export function Reference({ provider }: { provider: Provider }) {
  const done = useDone();
  const to = !provider.reference;
  const blocked =
    to && provider.status !== 'PROVIDER_STATUS_PENDING'
      ? 'Only a provider that is pending and was never active becomes a reference.'
      : '';
  if (provider.vendor) return null;
  return (
    <Section title="Reference of the platform">
      <Text size="sm" mb="sm">
        {provider.reference ? 'It is a reference: it is never active and earns nothing.' : 'It is not a reference.'}
      </Text>
      <Act
        label={to ? 'Make it a reference' : 'Make it an ordinary provider'}
        title={to ? 'Make it a reference?' : 'Make it an ordinary provider?'}
        permission={needs['POST /api/v1/admin/providers/{provider_id}/reference']}
        blocked={blocked}
        facts={[
          ['To whom', provider.name || provider.provider_id],
          ['Second person', 'none is needed'],
        ]}
        reason="Why, in at most 200 characters, for the audit."
        run={({ reason }) =>
          answer(
            api.POST('/api/v1/admin/providers/{provider_id}/reference', {
              params: { path: { provider_id: provider.provider_id } },
              body: { reference: to, reason },
            }),
          )
        }
        done={() => done(to ? 'It is a reference.' : 'It is an ordinary provider.')}
      >
        {to ? (
          <List size="sm">
            <List.Item>It answers challenges, and the answers of others are judged by what it says.</List.Item>
            <List.Item>It is never active, stands in no public list and earns nothing.</List.Item>
          </List>
        ) : (
          'Its status follows from its facts again: it becomes active by itself once all of them hold.'
        )}
      </Act>
    </Section>
  );
}
