// Files of the API need the Authorization header, which a plain link cannot send. So the page reads them itself, up to
// a bound, and hands them to the browser whole: what breaks off is never saved as if it were all.

import { Button, Stack, Text } from '@mantine/core';
import { useState } from 'react';

import { ApiError, asApiError } from '../api/error';
import { Failure } from './page';

type Body = NonNullable<Response['body']>;

const maxMegabytes = 64;
const megabyte = 1024 * 1024;

/** A button that saves a CSV of the API. `rows` says which rows the file has. */
export function CsvButton({
  name,
  load,
  rows = 'All rows of the days shown',
  disabled = false,
}: {
  name: string;
  load: () => Promise<Body | null>;
  rows?: string;
  disabled?: boolean;
}) {
  const [read, setRead] = useState<number | null>(null);
  const [error, setError] = useState<unknown>(null);

  async function go() {
    setRead(0);
    setError(null);
    try {
      const parts = await bounded(await load(), setRead);
      save(new Blob(parts, { type: 'text/csv' }), name);
    } catch (thrown) {
      setError(asApiError(thrown));
    } finally {
      setRead(null);
    }
  }

  return (
    <Stack gap={4} align="flex-end">
      <Button size="xs" variant="default" onClick={() => void go()} disabled={disabled || read !== null}>
        Download CSV
      </Button>
      <Text size="xs" c="var(--muted)" aria-live="polite">
        {read === null ? `${rows}, up to ${maxMegabytes} MB.` : `${(read / megabyte).toFixed(1)} MB so far …`}
      </Text>
      {error !== null && <Failure error={error} title="Nothing was saved" />}
    </Stack>
  );
}

async function bounded(body: Body | null, tell: (bytes: number) => void): Promise<Uint8Array<ArrayBuffer>[]> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  if (body === null) return parts;
  const reader = body.getReader();
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return parts;
    bytes += value.byteLength;
    if (bytes > maxMegabytes * megabyte) {
      await reader.cancel();
      throw new ApiError(`The file has more than ${maxMegabytes} MB. Choose fewer days, or fetch it with a program.`, {
        status: 0,
        code: 'file_too_large',
      });
    }
    parts.push(value);
    tell(bytes);
  }
}

/** Has the browser save a value as JSON. */
export function saveJson(value: unknown, name: string) {
  save(new Blob([JSON.stringify(value, null, 2)], { type: 'application/json' }), name);
}

/** Has the browser save a file. */
export function save(file: Blob, name: string) {
  const url = URL.createObjectURL(file);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  document.body.append(link); // some browsers click no link that is outside the page
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000); // the browser has begun to read by then
}
