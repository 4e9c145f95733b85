// Acts of operators. A button opens a question that says what will happen, to whom and with which amount,
// takes the reason that the audit log keeps, and only then calls. An act that the operator's role does not
// allow stays in sight, says why, and opens nothing.

import { Button, Group, Modal, Stack, Text, Textarea, Tooltip } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useId, useState, type ReactNode } from 'react';

import { Form, useForm, type FormState } from '../../ui/form';
import { Facts } from '../../ui/table';
import { useRefusal, type Permission } from './role';

interface Words {
  /** What the operator wrote, for the record; empty where the act asks for no reason. */
  reason: string;
  /** For Idempotency-Key, where the route takes one. */
  key: string;
}

interface ActProps<T> {
  /** What the button says, for example `Approve`. */
  label: string;
  /** What the question asks, for example `Approve this payout?`. */
  title: string;
  permission: Permission;
  /** Why it cannot be done now, beside the role; empty where it can. */
  blocked?: string;
  /** What it will do, in sentences. */
  children: ReactNode;
  /** To whom, with which amount, and who else is needed. */
  facts?: [name: string, value: ReactNode][];
  /** Inputs of the act, beside the reason. */
  fields?: (form: FormState) => ReactNode;
  /** The names that the API gives to the inputs, whose errors stand at them. */
  params?: string[];
  /** What the reason is for; absent where the act takes none. */
  reason?: string;
  run: (words: Words) => Promise<T>;
  done?: (answer: T) => void;
  /** Whether it cannot be undone; the button is red then. */
  destructive?: boolean;
  size?: string;
}

export function Act<T>(props: ActProps<T>) {
  const [open, { open: ask, close }] = useDisclosure(false);
  const refusal = useRefusal(props.permission);
  const why = refusal === '' ? (props.blocked ?? '') : refusal;
  const { label, title, destructive = false, size = 'xs' } = props;
  if (why !== '') return <Refused label={label} why={why} size={size} />;
  return (
    <>
      <Button
        size={size}
        variant={destructive ? 'light' : 'default'}
        color={destructive ? 'red' : undefined}
        onClick={ask}
      >
        {label}
      </Button>
      <Modal opened={open} onClose={close} title={title} size="lg" closeButtonProps={{ 'aria-label': 'Close' }}>
        <Question {...props} close={close} />
      </Modal>
    </>
  );
}

/** Lives as long as the question is open, so that each opening begins anew. */
function Question<T>(props: ActProps<T> & { close: () => void }) {
  const { label, children, facts = [], fields, params = [], reason, run, done, close, destructive = false } = props;
  const [why, setWhy] = useState('');
  const form = useForm(
    (key) => run({ reason: why.trim(), key }),
    (answer) => {
      close();
      done?.(answer);
    },
  );
  const leave = (
    <Button variant="default" onClick={close}>
      Leave it
    </Button>
  );
  return (
    <Form
      form={form}
      label={label}
      destructive={destructive}
      params={reason === undefined ? params : [...params, 'reason']}
      secondary={leave}
    >
      <Stack gap="sm">
        <Text component="div" size="sm">
          {children}
        </Text>
        {facts.length > 0 && <Facts facts={facts} />}
        {fields?.(form)}
        {reason !== undefined && (
          <Textarea
            label="Reason"
            description={reason}
            value={why}
            onChange={(event) => setWhy(event.currentTarget.value)}
            error={form.of('reason')}
            autosize
            minRows={2}
            maxRows={6}
            data-autofocus
          />
        )}
      </Stack>
    </Form>
  );
}

/** A button that opens nothing. It keeps its place in the order of the keyboard, so that its reason can be read. */
function Refused({ label, why, size }: { label: string; why: string; size: string }) {
  const id = useId();
  return (
    <Group gap={0} component="span" display="inline-flex">
      <Tooltip label={why} multiline maw={280} events={{ hover: true, focus: true, touch: true }}>
        <Button
          size={size}
          variant="default"
          data-disabled
          aria-disabled="true"
          aria-describedby={id}
          onClick={(event) => event.preventDefault()}
        >
          {label}
        </Button>
      </Tooltip>
      <span id={id} className="visually-hidden">
        {why}
      </span>
    </Group>
  );
}

/** Says once, above acts, that the operator's role does not allow them. */
export function RoleNote({ permission }: { permission: Permission }) {
  const why = useRefusal(permission);
  if (why === '') return null;
  return (
    <Text size="sm" c="var(--muted)" mb="sm">
      {why}
    </Text>
  );
}
