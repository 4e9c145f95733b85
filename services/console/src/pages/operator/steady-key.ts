import { useRef } from 'react';

import { idempotencyKey } from '../../api/client';

/**
 * Keys for Idempotency-Key of acts that must not be done twice. The same contents have the same key until
 * the act is done, even if its question was closed meanwhile: a lost answer may hide that it was done.
 */
export function useSteadyKey() {
  const last = useRef({ contents: '', key: '' });
  return {
    of(contents: string): string {
      if (last.current.key === '' || last.current.contents !== contents)
        last.current = { contents, key: idempotencyKey() };
      return last.current.key;
    },
    clear() {
      last.current = { contents: '', key: '' };
    },
  };
}
