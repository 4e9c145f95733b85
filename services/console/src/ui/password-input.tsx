import { PasswordInput as OfKit, type PasswordInputProps } from '@mantine/core';

/** A field for a password. The kit shows its error, and leaves out that the field is invalid for who hears it. */
export function PasswordInput(props: PasswordInputProps) {
  return <OfKit {...props} aria-invalid={props.error ? true : undefined} />;
}
