// The cancel of a call that has a nonce and cannot be sent.

import { Select, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import type { FormState } from '../../ui/form';
import { Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id } from '../../ui/text';
import { Act, RoleNote } from './act';
import { useChainName, useChains } from './chain-names';
import { useDone } from './lists';

interface Call {
  chain: string;
  sender: string;
  nonce: string;
}

export function CancelCall() {
  const done = useDone();
  const chains = useChains();
  const [call, setCall] = useState<Call>({ chain: '', sender: '', nonce: '' });
  const chosen = call.chain === '' ? (chains.data?.chains[0]?.chain_id ?? '') : call.chain;
  const [cancelled, setCancelled] = useState<Schemas['CancelCallResponse']>();
  return (
    <Section
      title="Cancel a call"
      json={cancelled}
      note="For a call that the signer does not allow, which keeps all later calls of its sender waiting. The alarm names chain, sender and
        nonce. A payout is cancelled on the page of payouts."
    >
      <RoleNote permission="run" />
      <Stack align="flex-start">
        <Act
          label="Cancel a call"
          title="Cancel a call on its chain?"
          permission="run"
          blocked={chosen === '' ? 'No chain is configured.' : ''}
          destructive
          facts={[['Second person', 'None is needed']]}
          params={['chain_id', 'sender', 'nonce']}
          fields={(form) => <CallFields form={form} call={{ ...call, chain: chosen }} onChange={setCall} />}
          reason="Why. The record keeps it. 1 to 500 characters."
          run={({ reason }) =>
            answer(
              api.POST('/api/v1/admin/chains/{chain_id}/calls/cancel', {
                params: { path: { chain_id: chosen } },
                body: { sender: call.sender.trim(), nonce: call.nonce.trim(), reason },
              }),
            )
          }
          done={(answered) => {
            setCancelled(answered);
            done('The cancel is asked for.');
          }}
        >
          A transaction that does nothing is sent with the nonce of the call. The chain decides which of the two is
          mined. If it is the cancel, what the call was for fails, and the money of a payout is payable to its provider
          again. The platform pays the gas.
        </Act>
        {cancelled !== undefined && (
          <div role="status">
            <Facts
              facts={[
                ['The cancel is asked for. The call was for', cancelled.purpose],
                ['Its id', <Id key="ref" value={cancelled.ref} full />],
              ]}
            />
          </div>
        )}
      </Stack>
    </Section>
  );
}

function CallFields({ form, call, onChange }: { form: FormState; call: Call; onChange: (call: Call) => void }) {
  const chains = useChains();
  const name = useChainName();
  return (
    <>
      <Select
        label="Chain"
        value={call.chain === '' ? null : call.chain}
        onChange={(value) => onChange({ ...call, chain: value ?? '' })}
        allowDeselect={false}
        data={(chains.data?.chains ?? []).map((one) => ({ value: one.chain_id, label: name(one.chain_id) }))}
        error={form.of('chain_id')}
      />
      <TextInput
        label="Sender"
        description="The address that sends it: 0x and 40 digits"
        value={call.sender}
        onChange={(event) => onChange({ ...call, sender: event.currentTarget.value })}
        error={form.of('sender')}
      />
      <TextInput
        label="Nonce"
        inputMode="numeric"
        value={call.nonce}
        onChange={(event) => onChange({ ...call, nonce: event.currentTarget.value })}
        error={form.of('nonce')}
      />
    </>
  );
}
