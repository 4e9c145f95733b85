// Files to keep. A download needs the session's token in a header, so the page fetches the file and hands it to
// the browser.

import { Button } from '@mantine/core';
import { useState } from 'react';

import { Failure } from '../../ui/page';

/** Hands a file to the browser. */
export function save(file: Blob, name: string) {
  const url = URL.createObjectURL(file);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  // The browser has begun to read by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export function saveJson(value: unknown, name: string) {
  save(new Blob([JSON.stringify(value, null, 2)], { type: 'application/json' }), name);
}

/** A button that fetches a file and keeps it. */
export function Download({
  label,
  name,
  fetchFile,
  disabled = false,
}: {
  label: string;
  name: string;
  fetchFile: () => Promise<Blob>;
  disabled?: boolean;
}) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);

  async function go() {
    setBusy(true);
    setError(null);
    try {
      save(await fetchFile(), name);
    } catch (thrown) {
      setError(thrown);
    } finally {
      setBusy(false);
    }
  }

  return (
    <>
      <Button size="xs" variant="default" loading={busy} disabled={disabled} onClick={() => void go()}>
        {label}
      </Button>
      {error !== null && <Failure error={error} title="The file was not fetched" />}
    </>
  );
}
