import { Button, Group, Paper, Stack, Text, Textarea } from '@mantine/core';
import { useState, type KeyboardEvent } from 'react';
import { Link } from 'react-router';

import { dollars } from '../../format/money';
import { count, milliseconds } from '../../format/quantity';
import { Anchor } from '../../ui/page';
import { Copy, Id, State } from '../../ui/text';
import type { Wish } from './chat';
import type { Chat, Turn } from './use-chat';

/** All questions and answers. A screen reader hears an answer when it is complete, and not word by word. */
export function Conversation({ turns, visitor }: { turns: Turn[]; visitor: boolean }) {
  if (turns.length === 0) {
    return (
      <Text c="var(--muted)">
        Ask something. The whole conversation is sent with each question, so long ones cost more.
      </Text>
    );
  }
  const answering = turns.some(({ state }) => state === 'waiting' || state === 'streaming');
  return (
    <>
      <Stack role="log" aria-label="Conversation" aria-live="polite" aria-busy={answering}>
        {turns.map((turn) => (
          <OneTurn key={turn.id} turn={turn} visitor={visitor} />
        ))}
      </Stack>
      <div role="status" className="visually-hidden">
        {answering ? 'The answer is being written.' : 'The answer has ended.'}
      </div>
    </>
  );
}

const plain = { whiteSpace: 'pre-wrap' } as const;

function OneTurn({ turn, visitor }: { turn: Turn; visitor: boolean }) {
  return (
    <Stack gap="xs">
      <div>
        <Text size="sm" fw={600}>
          You
        </Text>
        <Text className="breakable" style={plain}>
          {turn.asked}
        </Text>
      </div>
      <Paper withBorder p="sm" radius="md">
        <Group justify="space-between" gap="xs" mb={4}>
          <Text size="sm" fw={600} component="div">
            Model <TurnState turn={turn} />
          </Text>
          {turn.text !== '' && <Copy value={turn.text} what="answer" />}
        </Group>
        {turn.thinking !== '' && (
          <details>
            <summary>Reasoning</summary>
            <Text size="sm" c="var(--muted)" className="breakable" style={plain}>
              {turn.thinking}
            </Text>
          </details>
        )}
        <Text className="breakable" style={plain}>
          {turn.text}
          {turn.text === '' && turn.state === 'whole' && 'The model said nothing.'}
        </Text>
        {turn.state !== 'waiting' && turn.state !== 'streaming' && <Figures turn={turn} visitor={visitor} />}
      </Paper>
    </Stack>
  );
}

function TurnState({ turn }: { turn: Turn }) {
  switch (turn.state) {
    case 'waiting':
      return <State tone="busy">waiting for a provider</State>;
    case 'streaming':
      return <State tone="busy">writing</State>;
    case 'stopped':
      return <State tone="warning">stopped</State>;
    case 'failed':
      return <State tone="bad">broken off</State>;
    case 'whole':
      return turn.finish === 'length' ? <State tone="warning">cut at the longest answer</State> : null;
  }
}

/** What an answer took and cost. */
function Figures({ turn, visitor }: { turn: Turn; visitor: boolean }) {
  const { served, usage } = turn;
  const parts: string[] = [];
  if (usage !== null) parts.push(`${count(usage.prompt)} tokens in`, `${count(usage.completion)} tokens out`);
  if (served !== null && served.latency !== null)
    parts.push(`${visitor ? 'answered' : 'first token'} in ${milliseconds(served.latency)}`);
  if (served !== null && served.providerName !== '') parts.push(`by ${served.providerName}`);
  parts.push(visitor ? 'paid by this site' : costOf(turn));
  return (
    <Stack gap={4} mt="xs">
      <Text size="sm" c="var(--muted)" className="tabular breakable">
        {parts.join(' · ')}
      </Text>
      {served !== null && served.requestId !== '' && (
        <Group gap="xs">
          <Text size="sm" component="div">
            Request <Id value={served.requestId} what="request id" />
          </Text>
          {!visitor && (
            <Anchor component={Link} to={`/requests/${encodeURIComponent(served.requestId)}`} size="sm">
              Receipt
            </Anchor>
          )}
        </Group>
      )}
    </Stack>
  );
}

function costOf({ usage, served }: Turn): string {
  if (usage === null || usage.cost === null) return 'the receipt says what it cost';
  return `cost ${dollars(usage.cost)}${served?.billing === 'plan' ? ' (covered by the plan)' : ''}`;
}

/** Where a question is written. A question without an answer comes back to be sent again. */
export function Composer({ chat, wish, apiKey }: { chat: Chat; wish: Wish; apiKey: string }) {
  const [draft, setDraft] = useState('');
  const empty = draft.trim() === '';

  async function send() {
    if (empty || chat.busy) return;
    setDraft('');
    const kept = await chat.ask(draft, wish, apiKey);
    if (!kept) setDraft((now) => (now === '' ? draft : now));
  }

  function onKeyDown(event: KeyboardEvent) {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void send();
  }

  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <Stack gap="xs">
        <Textarea
          label="Message"
          description="Ctrl+Enter or ⌘+Enter sends it."
          autosize
          minRows={2}
          maxRows={12}
          maxLength={100_000}
          value={draft}
          onChange={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
        <Group justify="flex-end" gap="xs">
          {chat.turns.length > 0 && !chat.busy && (
            <Button variant="default" onClick={chat.startOver}>
              Start over
            </Button>
          )}
          {chat.busy ? (
            <Button variant="default" onClick={chat.stop}>
              Stop
            </Button>
          ) : (
            <Button type="submit" disabled={empty}>
              Send
            </Button>
          )}
        </Group>
      </Stack>
    </form>
  );
}
