// A deposit of collateral: a call that a wallet sends on a chain, or a page to pay by card.

import { Alert, Button, Code, List, Select, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { CodeBlock } from '../../ui/code';
import { Form, useForm } from '../../ui/form';
import { Loaded, Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id, Moment } from '../../ui/text';
import { useChainName, useContracts } from './chains';
import type { Collateral } from './queries';

type Call = Schemas['DepositCall'];
type CardPage = Schemas['DepositPage'];
type Contracts = Schemas['CollateralContracts']['data'];

export function Deposit({ of: collateral }: { of: Collateral }) {
  const where = useContracts();
  return (
    <Section
      title="Deposit"
      note={<>Money goes back to whoever deposits it. You can add to a position at any time while no refund is open.</>}
    >
      {collateral.refund !== null ? (
        <Text size="sm">A refund is open, so nothing can be deposited. Cancel it below, or wait for its end.</Text>
      ) : (
        <Loaded query={where}>
          {(contracts) =>
            contracts.chains.length === 0 && !contracts.card.available ? (
              <Text size="sm">
                No chain and no card takes collateral here now. Ask the operators, who can confirm it.
              </Text>
            ) : (
              <Ways contracts={contracts} />
            )
          }
        </Loaded>
      )}
    </Section>
  );
}

function Ways({ contracts }: { contracts: Contracts }) {
  const name = useChainName();
  const ways = [
    ...contracts.chains.map((chain) => ({
      value: String(chain.chain_id),
      label: `${chain.token_symbol} on ${name(chain.chain_id)}, at least ${chain.min_collateral}`,
    })),
    ...(contracts.card.available
      ? [{ value: 'card', label: `By card, at least $${contracts.card.min_collateral}` }]
      : []),
  ];
  const [way, setWay] = useState(ways[0]?.value ?? '');
  const [amount, setAmount] = useState('');
  const [prepared, setPrepared] = useState<Call | CardPage | null>(null);
  const card = way === 'card';
  const chain = contracts.chains.find((one) => String(one.chain_id) === way);
  const minimum = String(card ? contracts.card.min_collateral : (chain?.min_collateral ?? ''));
  const form = useForm((key) => prepare(way, amount.trim() === '' ? minimum : amount.trim(), key), setPrepared);
  return (
    <Stack>
      <Form
        form={form}
        label={card ? 'Prepare the payment' : 'Prepare the call'}
        params={['amount', 'amount_usd', 'chain_id']}
      >
        <Stack gap="sm" maw={520}>
          <Select
            label="How"
            value={way}
            onChange={(value) => {
              setWay(value ?? '');
              setPrepared(null);
            }}
            data={ways}
            allowDeselect={false}
            error={form.of('chain_id')}
          />
          <TextInput
            label={card ? 'Amount in dollars' : `Amount in ${chain?.token_symbol ?? 'tokens'}`}
            description={`Empty: the minimum, ${minimum}.`}
            value={amount}
            onChange={(event) => {
              setAmount(event.currentTarget.value);
              setPrepared(null); // the call is of the amount that was asked for
            }}
            error={form.of('amount') ?? form.of('amount_usd')}
            inputMode="decimal"
            autoComplete="off"
            maxLength={32}
          />
        </Stack>
      </Form>
      <div aria-live="polite">
        {prepared !== null && ('url' in prepared ? <Pay page={prepared} /> : <Send call={prepared} />)}
      </div>
    </Stack>
  );
}

function prepare(way: string, amount: string, key: string): Promise<Call | CardPage> {
  const body =
    way === 'card'
      ? { amount_usd: amount, return_url: window.location.origin + window.location.pathname }
      : { chain_id: Number(way), amount };
  return answer(
    api.POST('/api/v1/provider/collateral/deposit', { params: { header: { 'Idempotency-Key': key } }, body }),
  );
}

function Pay({ page }: { page: CardPage }) {
  const cents = String(page.amount_cents).padStart(3, '0');
  return (
    <Alert color="teal" variant="light" title="Your payment is prepared">
      <Stack gap="xs" align="flex-start">
        <Text size="sm">
          You pay ${cents.slice(0, -2)}.{cents.slice(-2)} on the page of the card processor ({page.processor}), and come
          back here. The page is good until <Moment at={page.expires_at} />.
        </Text>
        {/^https?:\/\//.test(page.url) && (
          <Button component="a" href={page.url}>
            Go to the payment
          </Button>
        )}
        <Text size="sm" component="div">
          Checkout <Id value={page.checkout_id} what="checkout id" />
        </Text>
      </Stack>
    </Alert>
  );
}

function Send({ call }: { call: Call }) {
  const name = useChainName();
  const coin = call.token_address === '';
  return (
    <Alert color="teal" variant="light" title={`Send this from your wallet on ${name(call.chain_id)}`}>
      <Stack gap="sm">
        <List type="ordered" size="sm" spacing={4}>
          {!coin && (
            <List.Item>
              Approval: send the first data to the token <Code className="breakable">{call.token_address}</Code>,
              without coins.
            </List.Item>
          )}
          <List.Item>
            Deposit: send the {coin ? '' : 'second '}data to the contract{' '}
            <Code className="breakable">{call.contract}</Code>,{' '}
            {coin ? <>with {call.value} of the coin’s smallest unit.</> : 'without coins.'}
          </List.Item>
          <List.Item>Wait until the block is final. This page shows it by itself, and the hub hears of it.</List.Item>
        </List>
        {!coin && <CodeBlock code={call.approve_calldata} label="Data of the approval" />}
        <CodeBlock code={call.calldata} label="Data of the deposit" />
        <Facts
          facts={[
            ['Contract', <Id value={call.contract} what="contract" />],
            ['Token', coin ? 'the chain’s coin' : <Id value={call.token_address} what="token" />],
            ['Your provider id in the contract', <Id value={call.provider_bytes32} what="provider id of 32 bytes" />],
            ['Coins that go along', call.value],
          ]}
        />
        <Text size="sm">
          Never send tokens to the contract by a plain transfer: they would belong to no position, and nobody could give
          them back.
        </Text>
      </Stack>
    </Alert>
  );
}
