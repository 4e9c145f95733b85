import { TextInput } from '@mantine/core';

/** Six digits of an authenticator. Spaces, which some authenticators show, are left out. */
export function CodeInput({
  value,
  onChange,
  error,
}: {
  value: string;
  onChange: (code: string) => void;
  error: string | undefined;
}) {
  return (
    <TextInput
      label="Code"
      description="Six digits from your authenticator. A code counts once; wait for the next one after a failure."
      inputMode="numeric"
      autoComplete="one-time-code"
      maxLength={8}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value.replaceAll(/\s/g, ''))}
      error={error}
      className="tabular"
    />
  );
}
