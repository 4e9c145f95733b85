import { Anchor, Text, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';

import { answer, api } from '../../api/client';
import { Form, useForm } from '../../ui/form';
import { Loaded, Section } from '../../ui/page';
import { useWebhooks, webhooksKey } from './queries';

export function BalanceLow() {
  const webhooks = useWebhooks();
  return (
    <Section
      title="Low balance"
      note={
        <>
          Below this balance the overview warns you, and your{' '}
          <Anchor component={Link} to="/webhooks-of-account" inherit>
            webhooks
          </Anchor>{' '}
          hear account.balance_low.
        </>
      }
    >
      <Loaded query={webhooks}>
        {(data) => <BalanceLowForm key={data.balance_low_usd_str} bound={data.balance_low_usd_str} />}
      </Loaded>
    </Section>
  );
}

function BalanceLowForm({ bound }: { bound: string }) {
  const queries = useQueryClient();
  const [amount, setAmount] = useState(bound);
  const form = useForm(
    () => answer(api.PUT('/api/v1/user/me/balance-low', { body: { balance_low_usd: amount.trim() } })),
    () => void queries.invalidateQueries({ queryKey: webhooksKey }),
  );
  return (
    <Form
      form={form}
      label="Save the bound"
      params={['balance_low_usd']}
      secondary={
        <Text size="sm" role="status">
          {bound === '' ? 'No bound is set.' : amount === bound ? 'This bound is set.' : ''}
        </Text>
      }
    >
      <TextInput
        label="US dollars"
        description="Empty or 0 for never."
        inputMode="decimal"
        maw={260}
        value={amount}
        onChange={(event) => setAmount(event.currentTarget.value)}
        error={form.of('balance_low_usd')}
      />
    </Form>
  );
}
