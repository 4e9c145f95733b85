// Forms: one submit at a time, the error beside the field that it names, and nothing done twice.

import { Button, Group, Stack } from '@mantine/core';
import { useRef, useState, type FormEvent, type ReactNode } from 'react';

import { asApiError, type ApiError } from '../api/error';
import { idempotencyKey } from '../api/client';
import { Failure } from './page';

export interface FormState {
  busy: boolean;
  error: ApiError | null;
  /** The error of a field, by the name that the API gives it; for the `error` of an input. */
  of: (param: string) => string | undefined;
}

/**
 * Runs a form's call. `submit` gets a key for Idempotency-Key that stays the same until the call has
 * succeeded. A refusal that the service answered makes a new key, because a changed form is another call.
 */
export function useForm<T>(
  submit: (key: string) => Promise<T>,
  done?: (answer: T) => void,
): FormState & { onSubmit: (event?: FormEvent) => void } {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const key = useRef('');

  async function run() {
    if (busy) return;
    setBusy(true);
    setError(null);
    if (key.current === '') key.current = idempotencyKey();
    try {
      const answer = await submit(key.current);
      key.current = '';
      done?.(answer);
    } catch (thrown) {
      const failed = asApiError(thrown);
      if (failed.status >= 400 && failed.status < 500) key.current = '';
      setError(failed);
    } finally {
      setBusy(false);
    }
  }

  return {
    busy,
    error,
    of: (param) => (error !== null && error.param === param ? error.message : undefined),
    onSubmit: (event) => {
      event?.preventDefault();
      void run();
    },
  };
}

interface FormProps {
  form: FormState & { onSubmit: (event?: FormEvent) => void };
  label: string;
  params?: string[];
  children: ReactNode;
  secondary?: ReactNode;
  /** Whether what it does cannot be undone; the button is red then. */
  destructive?: boolean;
}

/** A form with its button. An error that names no field of `params` stands above the button. */
export function Form({ form, label, params = [], children, secondary, destructive = false }: FormProps) {
  const shown = form.error !== null && !(form.error.param !== null && params.includes(form.error.param));
  return (
    <form onSubmit={form.onSubmit} noValidate>
      <Stack gap="sm">
        {children}
        {shown && <Failure error={form.error} />}
        <Group>
          <Button type="submit" loading={form.busy} color={destructive ? 'red' : undefined}>
            {label}
          </Button>
          {secondary}
        </Group>
      </Stack>
    </form>
  );
}
