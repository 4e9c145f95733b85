import { Alert, Button, Grid, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';

import { asApiError, type ApiError } from '../../api/error';
import { useFilters } from '../../ui/filters';
import { Empty, Failure, Loaded, Page, Section } from '../../ui/page';
import { useCatalog, type Model } from './catalog';
import { allModels, isCallable, isChat, viewed } from './catalog-view';
import type { Wish } from './chat';
import { Composer, Conversation } from './conversation';
import { keyProblem, useApiKey } from './key';
import { Access, Settings, type Choice, type Choices } from './playground-settings';
import { useChat } from './use-chat';
import { openSession } from './visitor';
import type { Visits } from './visits';

/** The most tokens of an answer to a visitor. */
const visitorTokens = 100;

/** A conversation with a model: short answers without a key, streams with one. */
export default function Playground() {
  const key = useApiKey();
  return (
    <Page
      title="Playground"
      lead={
        key === ''
          ? 'Ask a model without an account: a few short answers an hour, paid for by this site. With a key, answers stream.'
          : 'Answers stream, and your key’s account is billed for them. Each answer leads to its receipt.'
      }
    >
      {key === '' || keyProblem(key) !== undefined ? <AsVisitor /> : <WithKey apiKey={key} />}
    </Page>
  );
}

function AsVisitor() {
  const query = useQuery({
    queryKey: ['playground', 'models'],
    queryFn: async ({ signal }) => openSession(signal),
    retry: false,
    // What is left of the hour is as old as the answer, and each page that is opened has its own.
    gcTime: 0,
    refetchOnWindowFocus: false,
  });
  if (query.isError && query.data === undefined) {
    // A site without a playground has no such route.
    const shut = ['unknown_route', 'origin_not_allowed'].includes(asApiError(query.error).code);
    return (
      <Bench
        apiKey=""
        models={[]}
        visits={null}
        closed={shut ? null : query.error}
        retry={() => void query.refetch()}
      />
    );
  }
  return (
    <Loaded query={query}>
      {({ models, visits }) => (
        <Bench apiKey="" models={models.map(visitorChoice)} visits={visits} closed={undefined} />
      )}
    </Loaded>
  );
}

function visitorChoice({ id }: { id: string }): Choice {
  return { id, label: id, longest: visitorTokens, callable: true };
}

function WithKey({ apiKey }: { apiKey: string }) {
  const catalog = useCatalog();
  return (
    <Loaded query={catalog}>
      {(models) => <Bench apiKey={apiKey} models={choices(models)} visits={null} closed={undefined} />}
    </Loaded>
  );
}

/**
 * The models that answer messages, those that can be called first. The others stay, so that a conversation does not
 * lose its model when the last provider leaves.
 */
function choices(models: Model[]): Choices {
  return viewed(models, allModels)
    .filter((model) => model.active && isChat(model))
    .map((model) => ({
      id: model.id,
      label: `${model.name === '' ? model.id : `${model.name} (${model.id})`}${isCallable(model) ? '' : ', nobody online'}`,
      longest: model.max_output_tokens,
      callable: isCallable(model),
      priced: model,
    }));
}

interface BenchProps {
  /** Empty for a visitor. */
  apiKey: string;
  models: Choices;
  /** What a visitor has left as the page opens; null where it is not known. */
  visits: Visits | null;
  /** Undefined where the playground is open. Else the error for which it is closed; null where it is closed to visitors. */
  closed: unknown;
  /** Asks once more whether the playground is open. */
  retry?: () => void;
}

function Bench({ apiKey, models, visits, closed, retry }: BenchProps) {
  const [{ model: wanted }, set] = useFilters({ model: '' });
  const [options, setOptions] = useState<Omit<Wish, 'model'>>({
    system: '',
    maxTokens: apiKey === '' ? visitorTokens : null,
    temperature: null,
  });
  const chat = useChat(visits);
  const [first] = useState(models[0]?.id); // the order changes with who is online, and the model must not
  const model = models.find(({ id }) => id === wanted) ?? models.find(({ id }) => id === first) ?? models[0];
  const access = <Access visits={chat.visits} closed={closed !== undefined} />;
  if (closed !== undefined || model === undefined) {
    return (
      <Stack>
        <Closed closed={closed} visitor={apiKey === ''} retry={retry} />
        {access}
      </Stack>
    );
  }
  const maxTokens = options.maxTokens === null ? null : Math.min(options.maxTokens, model.longest);
  const wish = { ...options, model: model.id, maxTokens };
  return (
    <Grid>
      <Grid.Col span={{ base: 12, md: 8 }}>
        <Stack>
          {!model.callable && <NobodyOnline model={model} />}
          {wanted !== '' && model.id !== wanted && (
            <Elsewhere wanted={wanted} used={model.id} visitor={apiKey === ''} />
          )}
          <Section title="Conversation" json={chat.turns.length === 0 ? undefined : chat.turns}>
            <Stack>
              <Conversation turns={chat.turns} visitor={apiKey === ''} />
              {chat.error !== null && (
                <NoAnswer
                  error={chat.error}
                  retry={chat.turns.at(-1)?.state === 'failed' ? () => void chat.askAgain(wish, apiKey) : undefined}
                />
              )}
              <Composer chat={chat} wish={wish} apiKey={apiKey} />
            </Stack>
          </Section>
        </Stack>
      </Grid.Col>
      <Grid.Col span={{ base: 12, md: 4 }}>
        <Stack>
          <Settings
            models={models}
            model={model}
            setModel={(id) => set({ model: id })}
            options={wish}
            setOptions={(change) => setOptions((now) => ({ ...now, ...change }))}
          />
          {access}
        </Stack>
      </Grid.Col>
    </Grid>
  );
}

/** Why there is no answer, or no whole one, which can be asked for again. */
function NoAnswer({ error, retry }: { error: ApiError; retry: (() => void) | undefined }) {
  const unpaid = error.code === 'insufficient_credits' || error.code === 'plan_allowance_exceeded';
  return (
    <>
      <Failure
        error={error}
        title={retry === undefined ? 'There is no answer' : 'The answer broke off'}
        retry={retry}
      />
      {unpaid && (
        <Button component={Link} to="/credits" variant="default">
          Add credit
        </Button>
      )}
    </>
  );
}

function Closed({ closed, visitor, retry }: { closed: unknown; visitor: boolean; retry: (() => void) | undefined }) {
  if (closed !== undefined && closed !== null) {
    return <Failure error={closed} retry={retry} title="The playground is closed to visitors for now" />;
  }
  return (
    <Section title="Conversation">
      <Empty
        action={
          <Button component={Link} to={visitor ? '/sign-up' : '/'} variant="default">
            {visitor ? 'Sign up for a key' : 'All models'}
          </Button>
        }
      >
        {visitor
          ? 'This site gives no answers without a key. Paste a key of yours below.'
          : 'The catalog has no model that answers messages yet.'}
      </Empty>
    </Section>
  );
}

function NobodyOnline({ model }: { model: Choice }) {
  return (
    <Alert color="yellow" variant="light" title="This model cannot be called now">
      <Text size="sm" className="breakable">
        No provider is online for {model.id}. Choose another model, or try again in a moment.
      </Text>
    </Alert>
  );
}

function Elsewhere({ wanted, used, visitor }: { wanted: string; used: string; visitor: boolean }) {
  return (
    <Alert color="yellow" variant="light" title={visitor ? 'This model needs a key' : 'There is no such model'}>
      <Text size="sm" className="breakable">
        {visitor
          ? `${wanted} is not among the models that visitors may ask.`
          : `The catalog has no ${wanted} that answers messages.`}{' '}
        {used} is chosen in its place.
      </Text>
    </Alert>
  );
}
