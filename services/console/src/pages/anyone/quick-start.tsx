import { Button, List, NativeSelect, SegmentedControl, SimpleGrid, Stack, Text } from '@mantine/core';
import { Link } from 'react-router';

import { useSession } from '../../app/session';
import { CodeBlock, CodeTabs } from '../../ui/code';
import { useFilters } from '../../ui/filters';
import { Anchor, Empty, Loaded, Page, Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id } from '../../ui/text';
import { useCatalog, type Model } from './catalog';
import { isCallable, isChat, viewed, allModels } from './catalog-view';
import { keyVariable, samples } from './samples';

/** From nothing to an answer, with this site's own address and a model that answers now. */
export default function QuickStart() {
  const catalog = useCatalog();
  return (
    <Page
      title="Quick start"
      lead="Any OpenAI SDK works. Set its base URL to the one below, and use a key of yours. Four steps take you to a receipt."
    >
      <GetKey />
      <Section
        title="2. Set the base URL and the key"
        note="The key stays in the environment, so that it is in no source file."
      >
        <Stack>
          <Facts facts={[['Base URL', <Id key="url" value={`${window.location.origin}/v1`} what="base URL" full />]]} />
          <CodeBlock label="Set the key in a shell" code={`export ${keyVariable}=<API_KEY>`} />
        </Stack>
      </Section>
      <Section title="3. Ask a model">
        <Loaded query={catalog}>{(models) => <Ask models={models} />}</Loaded>
      </Section>
      <Receipt />
      <WhenItFails />
    </Page>
  );
}

function GetKey() {
  const session = useSession();
  const signedIn = session.kind === 'user';
  return (
    <Section
      title="1. Get a key"
      actions={
        <Button component={Link} to={signedIn ? '/keys' : '/sign-up'} size="xs">
          {signedIn ? 'My keys' : 'Sign up'}
        </Button>
      }
    >
      <Text size="sm">
        {signedIn
          ? 'Make a key for each program, so that you can revoke one alone. A key is shown once.'
          : 'Signing up makes an account and its first key, which is shown once.'}{' '}
        Models that cost nothing need no credit. For all others,{' '}
        <Anchor component={Link} to="/credits" inherit underline="always">
          add credit
        </Anchor>{' '}
        by card or crypto, or take the{' '}
        <Anchor component={Link} to="/plan" inherit underline="always">
          Token Plan
        </Anchor>
        .
      </Text>
    </Section>
  );
}

function Ask({ models }: { models: Model[] }) {
  const [{ model: wanted, answer }, set] = useFilters({ model: '', answer: 'whole' });
  const chats = viewed(models, allModels).filter((model) => isCallable(model) && isChat(model));
  const model = chats.find((one) => one.id === wanted) ?? chats[0];
  if (model === undefined) {
    return (
      <Empty
        action={
          <Button component={Link} to="/" variant="default">
            All models
          </Button>
        }
      >
        No model for text can be called now, because no provider is online for one. Look again in a moment.
      </Empty>
    );
  }
  return (
    <Stack>
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <NativeSelect
          label="Model that answers now"
          value={model.id}
          onChange={(event) => set({ model: event.currentTarget.value })}
          data={chats.map((one) => one.id)}
        />
        <div>
          <Text size="sm" fw={500} mb={4} id="answer-form">
            The answer comes
          </Text>
          <SegmentedControl
            fullWidth
            aria-labelledby="answer-form"
            value={answer}
            onChange={(value) => set({ answer: value })}
            data={[
              { value: 'whole', label: 'whole' },
              { value: 'stream', label: 'as a stream' },
            ]}
          />
        </div>
      </SimpleGrid>
      <CodeTabs
        key={`${model.id} ${answer}`}
        label="Code to ask the model"
        codes={samples({
          base: window.location.origin,
          model: model.id,
          category: model.category,
          stream: answer === 'stream',
        })}
      />
      <Text size="sm" c="var(--muted)">
        Python and JavaScript need the package openai (pip install openai, npm install openai). Go needs its standard
        library alone.
      </Text>
    </Stack>
  );
}

const receiptCall = `curl ${window.location.origin}/api/v1/requests/<REQUEST_ID> \\
  -H "Authorization: Bearer $${keyVariable}"`;

function Receipt() {
  return (
    <Section title="4. Read the receipt">
      <Stack gap="sm">
        <Text size="sm">
          Each answer has a header <code>X-Svc-Request-Id</code>. The receipt of that id says which provider served, how
          long each attempt took, and how tokens times price make the cost.
        </Text>
        <CodeBlock label="Fetch a receipt with curl" code={receiptCall} />
        <Text size="sm">
          Signed in, you find the same under{' '}
          <Anchor component={Link} to="/requests" inherit underline="always">
            Requests
          </Anchor>
          .
        </Text>
      </Stack>
    </Section>
  );
}

function WhenItFails() {
  return (
    <Section
      title="When a call fails"
      note="Every error has a code and a request id. SDKs of OpenAI try again by themselves where that can help."
    >
      <List size="sm" spacing="xs">
        <List.Item>
          401 <code>invalid_api_key</code>: the key is wrong, or it is a provider’s. A consumer key begins with sk-svc-.
        </List.Item>
        <List.Item>
          402 <code>insufficient_credits</code>: the hold for this request is more than the credit that is left. Add
          credit, or lower max_tokens.
        </List.Item>
        <List.Item>
          404 <code>model_not_found</code>: the catalog has no such id. GET /v1/models lists those that answer now.
        </List.Item>
        <List.Item>
          429 <code>rate_limit_exceeded</code>: wait as long as the header Retry-After says.
        </List.Item>
        <List.Item>
          503 <code>no_provider_online</code> or <code>providers_busy</code>: nobody can serve the model at this moment.
          Try again, or name further models in the field models.
        </List.Item>
      </List>
    </Section>
  );
}
