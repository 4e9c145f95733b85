import { Anchor, Button, Group, List, Stack, Text, Textarea } from '@mantine/core';
import { useState } from 'react';
import { Link } from 'react-router';

import { answer, api } from '../../api/client';
import { useNow } from '../../app/live';
import { duration, percent } from '../../format/quantity';
import { Form, useForm } from '../../ui/form';
import { Empty, Loaded, Page, Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Moment, State, type Tone } from '../../ui/text';
import { useChainName } from './chains';
import { Evidence } from './evidence';
import { useChanged, usePenalties, type Penalty } from './queries';
import { kindWord, sentence } from './words';

export default function Penalties() {
  const penalties = usePenalties();
  const list = penalties.data?.pages.flatMap((page) => page.list) ?? [];
  return (
    <Page
      title="Penalties"
      lead={
        <>
          What was found, what it costs, and how to appeal. A penalty sets a share of your collateral aside at once. It
          is taken only when 48 hours are over without an appeal, or when an appeal is lost.
        </>
      }
    >
      <Loaded query={penalties}>
        {() =>
          list.length === 0 ? (
            <Section title="No penalties">
              <Empty
                action={
                  <Anchor component={Link} to="/provider/verification" inherit>
                    See how your models stand
                  </Anchor>
                }
              >
                Nothing was found against you.
              </Empty>
            </Section>
          ) : (
            <>
              {list.map((penalty) => (
                <One key={penalty.penalty_id} of={penalty} />
              ))}
              {penalties.hasNextPage && (
                <Button
                  variant="default"
                  onClick={() => void penalties.fetchNextPage()}
                  loading={penalties.isFetchingNextPage}
                >
                  Show older ones
                </Button>
              )}
            </>
          )
        }
      </Loaded>
      <How />
    </Page>
  );
}

const tones: Record<Penalty['state'], Tone> = {
  proposed: 'bad',
  appealed: 'busy',
  upheld: 'bad',
  reversed: 'good',
  executed: 'neutral',
};

const meanings: Record<Penalty['state'], string> = {
  proposed: 'The share is set aside. You can appeal.',
  appealed: 'You appealed, so the clock stands. An operator decides, with another reference.',
  upheld: 'The appeal was lost. The share is taken.',
  reversed: 'The penalty is taken back: the share is yours again, and what rested on it is lifted.',
  executed: 'The share is due and was taken.',
};

/** What kind of evidence a penalty rests on. */
const classes: Record<Penalty['kind'], string> = {
  misrepresentation:
    'Misrepresentation: a notice was given, and answers differed from what you state all the same, as another reference confirmed',
  benchmark: 'Benchmarks that were failed one after the other',
};

function One({ of: penalty }: { of: Penalty }) {
  const now = useNow(15);
  const left = Date.parse(penalty.appeal_until) - now;
  const open = penalty.state === 'proposed' && left > 0;
  return (
    <Section
      title={`${percent(penalty.share)} of the collateral: ${penalty.model_id}`}
      json={penalty}
      actions={<State tone={tones[penalty.state]}>{penalty.state}</State>}
    >
      <Stack gap="md">
        <Text className="breakable">{sentence(penalty.summary)}</Text>
        <Text size="sm">{meanings[penalty.state]}</Text>
        <Facts
          facts={[
            [
              'Evidence',
              <>
                {classes[penalty.kind]}
                {penalty.family === '' || penalty.family === 'benchmark'
                  ? ''
                  : `; it looks at ${kindWord(penalty.family)}`}
                .
              </>,
            ],
            ['Opened', <Moment at={penalty.opened_at} withAge />],
            [
              'Time to appeal',
              <span role="timer">
                {open ? (
                  <State tone="warning">{`${duration(left / 1000)} left`}</State>
                ) : penalty.appealed_at === null ? (
                  'is over'
                ) : (
                  'you appealed'
                )}
              </span>,
            ],
            ['Appeal until', <Moment at={penalty.appeal_until} />],
            ['Removal from the network', penalty.removes ? <State tone="bad">yes, with this penalty</State> : 'no'],
            ['Penalty id', <Id value={penalty.penalty_id} what="penalty id" />],
            ...(penalty.appealed_at === null
              ? []
              : [['Appealed', <Moment at={penalty.appealed_at} withAge />] satisfies [string, React.ReactNode]]),
            ...(penalty.resolved_at === null
              ? []
              : [['Decided', <Moment at={penalty.resolved_at} withAge />] satisfies [string, React.ReactNode]]),
            ...(penalty.executed_at === null
              ? []
              : [['Taken', <Moment at={penalty.executed_at} withAge />] satisfies [string, React.ReactNode]]),
          ]}
        />
        {penalty.appeal_text !== '' && <Said by="Your appeal" text={penalty.appeal_text} />}
        {penalty.resolution !== '' && <Said by="The operator’s reason" text={penalty.resolution} />}
        <Parts of={penalty} />
        <Group>
          <Evidence penalty={penalty.penalty_id} />
        </Group>
        {open && <Appeal of={penalty} left={left} />}
      </Stack>
    </Section>
  );
}

function Said({ by, text }: { by: string; text: string }) {
  return (
    <div>
      <Text size="sm" fw={600}>
        {by}
      </Text>
      <Text size="sm" className="breakable" style={{ whiteSpace: 'pre-wrap' }}>
        {text}
      </Text>
    </div>
  );
}

type Part = Penalty['parts'][number];

function Parts({ of: penalty }: { of: Penalty }) {
  const name = useChainName();
  const columns: Column<Part>[] = [
    { name: 'From', cell: (part) => name(part.chain_id) },
    { name: 'Depositor', cell: (part) => <Id value={part.depositor} what="depositor" /> },
    { name: 'Amount', cell: (part) => `${part.amount} ${part.token_symbol}`, numeric: true },
    { name: 'State', cell: (part) => <State>{part.state}</State> },
    { name: 'Id on the chain', cell: (part) => <Id value={part.chain_penalty_id} what="penalty id on the chain" /> },
  ];
  return (
    <DataTable
      caption="What the penalty takes"
      columns={columns}
      rows={penalty.parts}
      id={(part) => `${part.chain_id} ${part.depositor}`}
      empty="It found no collateral, so it takes none."
    />
  );
}

const longest = 4000;

function Appeal({ of: penalty, left }: { of: Penalty; left: number }) {
  const [text, setText] = useState('');
  const changed = useChanged();
  const form = useForm(
    () =>
      answer(
        api.POST('/api/v1/provider/penalties/{penalty_id}/appeal', {
          params: { path: { penalty_id: penalty.penalty_id } },
          body: { text: text.trim() },
        }),
      ),
    () => void changed(),
  );
  return (
    <Form form={form} label="Appeal" params={['text']}>
      <Textarea
        label="Why the penalty is wrong"
        description={
          <>
            An operator reads it. Name what changed on the machine and when. An appeal costs nothing and stops the
            clock, which ends in {duration(left / 1000)}. The text cannot be changed later.
          </>
        }
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        error={form.of('text')}
        maxLength={longest}
        autosize
        minRows={4}
        maxRows={14}
        required
      />
    </Form>
  );
}

function How() {
  return (
    <Section title="How penalties come">
      <List size="sm" spacing={4}>
        <List.Item>
          A failed benchmark: a warning, and no requests for the model until it passes. The second in a row: 10% of the
          collateral. The third: 30%, and removal.
        </List.Item>
        <List.Item>
          Answers that differ from what you state: first a notice, and the window is capped to what was measured. Only
          if they go on to differ, and another reference confirms it: 10%, then 30% and removal.
        </List.Item>
        <List.Item>Slowness, failures and downtime cost no collateral. They make requests go elsewhere.</List.Item>
        <List.Item>
          No collateral is given back while a penalty or an appeal is open. After 30 days without a finding the count
          begins anew.
        </List.Item>
      </List>
    </Section>
  );
}
