// What all pages consist of: a head, sections, and what stands there while there are no data.

import { Alert, Anchor, Button, Group, Paper, Skeleton, Stack, Text, Title } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import { useEffect, useState, type ReactNode } from 'react';

import { asApiError } from '../api/error';
import { useSignInAgain } from '../app/leave';
import { duration } from '../format/quantity';
import { JsonView } from './json';
import { Id } from './text';

/** A page: its title, what may be done at its top, and its sections. */
export function Page({
  title,
  lead,
  actions,
  children,
}: {
  title: string;
  lead?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}) {
  useEffect(() => {
    document.title = `${title} · Inference marketplace`;
  }, [title]);
  return (
    <Stack gap="lg">
      <Group justify="space-between" align="flex-start">
        <div>
          <Title order={1} size="h2" className="breakable">
            {title}
          </Title>
          {lead !== undefined && (
            <Text c="var(--muted)" maw={720} mt={4} component="div">
              {lead}
            </Text>
          )}
        </div>
        {actions !== undefined && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </Stack>
  );
}

/** A part of a page with a heading of the second order. `json` is what the part shows, as the API answered it. */
export function Section({
  title,
  note,
  actions,
  json,
  children,
}: {
  title: string;
  note?: ReactNode;
  actions?: ReactNode;
  json?: unknown;
  children: ReactNode;
}) {
  return (
    <Paper component="section" withBorder p={{ base: 'sm', sm: 'md' }} radius="md" aria-label={title}>
      <Group justify="space-between" mb="sm" gap="xs">
        <Title order={2} size="h4">
          {title}
        </Title>
        <Group gap="xs">
          {actions}
          {json !== undefined && <JsonView value={json} title={title} />}
        </Group>
      </Group>
      {note !== undefined && (
        <Text size="sm" c="var(--muted)" mb="sm">
          {note}
        </Text>
      )}
      {children}
    </Paper>
  );
}

/** Says that there is nothing yet, and what the next step is. */
export function Empty({ children, action }: { children: ReactNode; action?: ReactNode }) {
  return (
    <Stack align="center" gap="sm" py="lg">
      <Text ta="center" c="var(--muted)">
        {children}
      </Text>
      {action}
    </Stack>
  );
}

/** An error as a reader can act on it: what is wrong, when to try again, and the request's id. */
export function Failure({
  error,
  retry,
  title = 'This did not work',
}: {
  error: unknown;
  retry?: () => void;
  title?: string;
}) {
  const failed = asApiError(error);
  return (
    <Alert
      color="red"
      variant="light"
      title={failed.status === 404 ? 'There is no such thing here' : title}
      role="alert"
    >
      <Stack gap="xs" align="flex-start">
        <Text size="sm" className="breakable">
          {failed.message}
        </Text>
        {failed.retryAfter !== null && <Text size="sm">Try again in {duration(Math.max(1, failed.retryAfter))}.</Text>}
        {failed.requestId !== '' && (
          <Text size="xs" component="div">
            Request <Id value={failed.requestId} what="request id" />
          </Text>
        )}
        {failed.code === 'fresh_sign_in_required' && <SignInAgain />}
        {retry !== undefined && (
          <Button size="xs" variant="default" onClick={retry}>
            Try again
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

/** What a reader does about a change that takes a sign-in of the last quarter of an hour. */
function SignInAgain() {
  const again = useSignInAgain();
  const [busy, setBusy] = useState(false);
  return (
    <>
      <Text size="sm">Nothing was changed. You will return to this page and will have to fill in the form again.</Text>
      <Button
        size="xs"
        loading={busy}
        onClick={() => {
          setBusy(true);
          void again();
        }}
      >
        Sign in again
      </Button>
    </>
  );
}

/** Shows what a query answered, or that it is on its way, or why it failed. */
export function Loaded<T>({ query, children }: { query: UseQueryResult<T>; children: (data: T) => ReactNode }) {
  if (query.data !== undefined) {
    return (
      <>
        {query.isError && (
          <Failure error={query.error} retry={() => void query.refetch()} title="These figures are not the newest" />
        )}
        {children(query.data)}
      </>
    );
  }
  if (query.isError) return <Failure error={query.error} retry={() => void query.refetch()} />;
  return (
    <Stack gap="xs" role="status" aria-label="Loading">
      <Skeleton height={18} width="40%" />
      <Skeleton height={18} />
      <Skeleton height={18} width="80%" />
    </Stack>
  );
}

/** A figure that a page leads with. */
export function Figure({ label, children, note }: { label: string; children: ReactNode; note?: ReactNode }) {
  return (
    <Paper withBorder p={{ base: 'xs', xs: 'md' }} radius="md" className="figure">
      <Text size="sm" c="var(--muted)">
        {label}
      </Text>
      <Text fz={{ base: 18, xs: 22, sm: 26 }} fw={600} className="tabular breakable" component="div">
        {children}
      </Text>
      {note !== undefined && (
        <Text size="sm" c="var(--muted)" component="div" className="figure-note">
          {note}
        </Text>
      )}
    </Paper>
  );
}

export { Anchor };
