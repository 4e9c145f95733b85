import { Anchor, Button, Group, List, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { Link } from 'react-router';

import { answer, api } from '../../api/client';
import { asApiError } from '../../api/error';
import { refresh } from '../../api/session';
import { useSession } from '../../app/session';
import { Form, useForm } from '../../ui/form';
import { Page, Section } from '../../ui/page';
import { Id } from '../../ui/text';
import { AgentCommands } from './agent-commands';
import { NewKey } from './new-key';

export default function Start() {
  const session = useSession();
  const [key, setKey] = useState('');
  const provider = session.kind === 'user' ? (session.user.provider_id ?? '') : '';
  return (
    <Page
      title="Become a Computing Provider"
      lead={
        <>
          A Computing Provider serves models with its own GPUs and is paid for each token. The agent on your machine
          dials out to the marketplace, so you need no public address, domain or certificate.
        </>
      }
    >
      {key !== '' && <NewKey text={key} />}
      {provider === '' ? (
        <>
          <What />
          <Become onOpen={setKey} />
        </>
      ) : (
        <Section title="Your provider account is open">
          <Group>
            <Text size="sm" component="span">
              Provider <Id value={provider} what="provider id" />
            </Text>
            <Button component={Link} to="/provider" size="xs">
              See where you stand
            </Button>
            <Button component={Link} to="/provider/keys" size="xs" variant="default">
              Make another key
            </Button>
          </Group>
        </Section>
      )}
      <Section title={provider === '' ? 'Then: three commands on your machine' : 'Three commands on your machine'}>
        <AgentCommands />
      </Section>
    </Page>
  );
}

function What() {
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }}>
      <Section title="What you need">
        <List size="sm" spacing={4}>
          <List.Item>
            An NVIDIA GPU with at least 8 GB of memory and compute capability 8.0 or newer; or a Mac with Apple Silicon,
            16 GB and Ollama.
          </List.Item>
          <List.Item>An engine that serves a model of the catalog: vLLM, SGLang, Ollama or llama.cpp.</List.Item>
          <List.Item>
            Collateral on one chain or by card. It stands behind your answers, and you get it back 7 days after you ask.
            Without a GPU of your own, an external endpoint can serve, too.
          </List.Item>
        </List>
      </Section>
      <Section title="How you earn">
        <List size="sm" spacing={4}>
          <List.Item>
            A served request earns its tokens times the payout price of the model. See{' '}
            <Anchor component={Link} to="/" inherit>
              prices
            </Anchor>{' '}
            and{' '}
            <Anchor component={Link} to="/demand" inherit>
              demand
            </Anchor>
            .
          </List.Item>
          <List.Item>
            You become active by yourself once collateral, machine and a benchmark hold. The first 24 hours are a
            probation.
          </List.Item>
          <List.Item>
            Earnings are batched each day (UTC). What is payable is paid out on a chain when you ask, from $10 on, for a
            fee of $1.
          </List.Item>
          <List.Item>What requests of plans earn is paid after the end of the month.</List.Item>
        </List>
      </Section>
    </SimpleGrid>
  );
}

async function open(name: string, beneficiary: string) {
  try {
    return await answer(
      api.POST('/api/v1/user/upgrade-to-provider', {
        body: { name, wallet_address: '', beneficiary_address: beneficiary },
      }),
    );
  } catch (thrown) {
    // Another page of this user may have opened the account. Then this session does not know it yet.
    if (asApiError(thrown).status === 409) refresh().catch(() => undefined);
    throw thrown;
  }
}

function Become({ onOpen }: { onOpen: (key: string) => void }) {
  const [name, setName] = useState('');
  const [beneficiary, setBeneficiary] = useState('');
  const form = useForm(
    () => open(name.trim(), beneficiary.trim()),
    (opened) => {
      onOpen(opened.provider_api_key);
      // The session learns of its provider by a new token. Where that fails, the next one has it.
      refresh().catch(() => undefined);
    },
  );
  return (
    <Section
      title="Open the account"
      note="This opens one provider account for you, and makes its first key. Nothing is charged."
    >
      <Form form={form} label="Become a provider" params={['name', 'beneficiary_address']}>
        <Stack gap="sm" maw={520}>
          <TextInput
            label="Name"
            description="What consumers see, up to 64 characters."
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={form.of('name')}
            maxLength={64}
            autoComplete="organization"
            required
          />
          <TextInput
            label="Beneficiary address (optional)"
            description={
              <>
                The wallet to which payouts go: 0x and 40 hexadecimal digits. An address that is given now can be paid
                at once; one that is set later waits 48 hours.
              </>
            }
            value={beneficiary}
            onChange={(event) => setBeneficiary(event.currentTarget.value)}
            error={form.of('beneficiary_address')}
            maxLength={64}
            autoComplete="off"
            spellCheck={false}
          />
        </Stack>
      </Form>
    </Section>
  );
}
