import { Anchor, Code, Group } from '@mantine/core';
import { Link } from 'react-router';

import { Copy } from '../../ui/text';

/** An id as tables show it: its beginning and its end. */
export function shortId(id: string): string {
  return id.length <= 14 ? id : `${id.slice(0, 8)}…${id.slice(-4)}`;
}

/** An id in short that leads to the page of what it names, with a button that copies it whole. */
export function IdLink({ value, to, what }: { value: string; to: string; what: string }) {
  if (value === '') return <>–</>;
  return (
    <Group component="span" gap={2} wrap="nowrap" display="inline-flex">
      <Anchor component={Link} to={to} underline="always" title={value} inherit>
        <span className="visually-hidden">{what} </span>
        <Code c="inherit">{shortId(value)}</Code>
      </Anchor>
      <Copy value={value} what={`${what} id`} />
    </Group>
  );
}

export function ProviderLink({ id }: { id: string }) {
  return <IdLink value={id} to={`/providers/${encodeURIComponent(id)}`} what="provider" />;
}

export function AccountLink({ id }: { id: string }) {
  return <IdLink value={id} to={`/accounts/${encodeURIComponent(id)}`} what="account" />;
}
