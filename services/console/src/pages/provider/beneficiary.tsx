// Where a provider's earnings go.

import { Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';

import { answer, api } from '../../api/client';
import { useNow } from '../../app/live';
import { Form, useForm } from '../../ui/form';
import { Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { useChanged, type Account } from './queries';
import { isAhead, withoutRoutes } from './words';

export function Beneficiary({ me }: { me: Account }) {
  const [address, setAddress] = useState('');
  const [said, setSaid] = useState('');
  const changed = useChanged();
  const form = useForm(
    () => answer(api.PUT('/api/v1/provider/me', { body: { beneficiary_address: address.trim() } })),
    (account) => {
      setSaid(withoutRoutes(account.message));
      setAddress('');
      void changed();
    },
  );
  return (
    <Section
      title="Where earnings go"
      note={
        <>
          Payouts go to the beneficiary address of the moment you ask. A new address waits 48 hours, so that a thief
          cannot empty the account at once.
        </>
      }
    >
      <Stack>
        <Now me={me} />
        <Form form={form} label="Change the address" params={['beneficiary_address']}>
          <TextInput
            label="New beneficiary address"
            description={
              <>
                0x and 40 hexadecimal digits. Mixed case is checked for typing errors. Use a wallet of yours that can
                receive on your settlement chain.
              </>
            }
            value={address}
            onChange={(event) => setAddress(event.currentTarget.value)}
            error={form.of('beneficiary_address')}
            maxLength={64}
            maw={520}
            autoComplete="off"
            spellCheck={false}
            required
          />
        </Form>
        <Text size="sm" role="status" className="breakable">
          {said}
        </Text>
      </Stack>
    </Section>
  );
}

function Now({ me }: { me: Account }) {
  const now = useNow();
  const { beneficiary } = me;
  return (
    <Facts
      facts={[
        [
          'Beneficiary address',
          beneficiary.address === '' ? (
            <State tone="warning">none</State>
          ) : (
            <Id value={beneficiary.address} what="beneficiary address" full />
          ),
        ],
        ['Since', <Moment at={beneficiary.since} withAge />],
        [
          'Payouts',
          beneficiary.address === '' ? (
            'not before an address is set'
          ) : isAhead(beneficiary.cooling_until, now) ? (
            <>
              from <Moment at={beneficiary.cooling_until} withAge /> on
            </>
          ) : (
            'can be asked for now'
          ),
        ],
      ]}
    />
  );
}
