import { Checkbox } from '@mantine/core';

import { webhookKinds } from './webhook-words';

/** Which events a webhook hears. */
export function KindInputs({
  kinds,
  onChange,
  error,
}: {
  kinds: string[];
  onChange: (kinds: string[]) => void;
  error?: string;
}) {
  return (
    <Checkbox.Group label="Events" description="None chosen means all." value={kinds} onChange={onChange} error={error}>
      {webhookKinds.map((kind) => (
        <Checkbox key={kind.value} mt="xs" value={kind.value} label={kind.label} description={kind.value} />
      ))}
    </Checkbox.Group>
  );
}
