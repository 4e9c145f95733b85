// Why nothing new is sent on chains.

import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Moment } from '../../ui/text';
import { Act, RoleNote } from './act';
import { useChainName } from './chain-names';
import { useDone } from './lists';

type Halt = Schemas['SendingHalt'];

const causes: Record<string, string> = {
  nonce_ahead: 'The chain or the signer knows a nonce that the database does not. Look at adoption first.',
  unknown_transaction:
    'A final transaction has the nonce of a call and is none of those that are stored. Look at adoption first.',
  final_reorged: 'A transaction that was final is no longer on the chain, or another one of its nonce is.',
  signer_refuses: 'The signer has another content on record for a nonce. Find out who asked it to sign.',
  operator: 'An operator halted it.',
  reserves:
    'Reserves are short, which halts payouts alone. It is lifted by itself once two readings find no shortfall.',
};

export function SendingHalts() {
  const query = useQuery({
    queryKey: ['admin', 'sending-halts'],
    queryFn: () => answer(api.GET('/api/v1/admin/sending-halts')),
    refetchInterval: 30_000,
  });
  const name = useChainName();
  const columns: Column<Halt>[] = [
    { name: 'Chain', cell: (halt) => name(halt.chain_id) },
    { name: 'Cause', cell: (halt) => causes[halt.cause] ?? halt.cause },
    { name: 'Detail', cell: (halt) => <span className="breakable">{halt.detail === '' ? '–' : halt.detail}</span> },
    { name: 'Since', cell: (halt) => <Moment at={halt.since} withAge /> },
    { name: 'Act', cell: (halt) => <Lift halt={halt} chain={name(halt.chain_id)} /> },
  ];
  const halted = (query.data?.list.length ?? 0) > 0;
  return (
    <Section
      title="Sending halts"
      json={query.data}
      note={halted ? 'Nothing new is sent on these chains. What was sent before goes on.' : undefined}
    >
      {halted && <RoleNote permission="run" />}
      <Loaded query={query}>
        {(data) => (
          <div aria-live="polite">
            <DataTable
              caption="Sending halts by chain"
              columns={columns}
              rows={data.list}
              id={(halt) => `${halt.chain_id} ${halt.cause}`}
              empty="Sending is halted on no chain."
            />
          </div>
        )}
      </Loaded>
    </Section>
  );
}

function Lift({ halt, chain }: { halt: Halt; chain: string }) {
  const done = useDone();
  return (
    <Act
      label="Lift"
      title={`Lift this halt of ${chain}?`}
      permission="run"
      blocked={
        halt.cause === 'reserves' ? 'A halt by reserves is lifted by itself, once two readings find no shortfall.' : ''
      }
      destructive
      facts={[
        ['Chain', chain],
        ['Cause', halt.cause.replaceAll('_', ' ')],
        ['Amount', 'Every payout, sweep and call that waits on this chain'],
        ['Second person', 'None is needed'],
      ]}
      reason="Why the cause is gone. The record keeps it. 1 to 500 characters."
      run={({ reason }) =>
        answer(
          api.POST('/api/v1/admin/sending-halts/{chain_id}/lift', {
            params: { path: { chain_id: halt.chain_id } },
            body: { cause: halt.cause, reason },
          }),
        )
      }
      done={() => done(`The halt of ${chain} is lifted.`)}
    >
      Sending begins again on this chain, unless another halt stands. Where the cause stands, the halt comes again. Lift
      it only after you know that nothing is sent twice.
    </Act>
  );
}
