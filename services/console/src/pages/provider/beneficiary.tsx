// Where a provider's earnings go.

import { Alert, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';

import { answer, api } from '../../api/client';
import { useNow } from '../../app/live';
import { Form, useForm } from '../../ui/form';
import { Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { useChanged, type Account } from './queries';
import { boundNewUntil, isAhead, withoutRoutes } from './words';

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
          cannot empty the account at once. You can change it only within 15 minutes of signing in.
        </>
      }
    >
      <Stack>
        <NewAddresses me={me} />
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

/** Warns of addresses that are new, as long as nothing can be paid out to them, or they may be a thief's. */
function NewAddresses({ me }: { me: Account }) {
  const now = useNow();
  const { cooling_until, address } = me.beneficiary;
  const paid = isAhead(cooling_until, now);
  const bound = isAhead(boundNewUntil(me), now);
  if (!paid && !bound) return null;
  return (
    <Alert
      color="yellow"
      variant="light"
      title={paid ? 'The beneficiary address is new' : 'A wallet is new'}
      role="status"
    >
      <Stack gap="xs">
        {paid && (
          <Text size="sm" component="div">
            Nothing is paid out before <Moment at={cooling_until} withAge /> to{' '}
            <Id value={address} what="beneficiary address" />.
          </Text>
        )}
        {bound && (
          <Text size="sm" component="div">
            The wallet <Id value={me.owner_address} what="owner’s address" /> has owned this account since{' '}
            <Moment at={me.owner_bound_at} withAge />.
          </Text>
        )}
        <Text size="sm">
          If you did not make this change: contact the operators at once, because only they can remove a wallet that is
          not yours. Change your password, which ends all other sessions, revoke your provider keys, and set your own
          address again.
        </Text>
      </Stack>
    </Alert>
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
