import { useCallback, useRef } from 'react';

import { idempotencyKey } from '../../api/client';
import { asApiError } from '../../api/error';

/**
 * Runs an act that is asked for outside a form with an Idempotency-Key. The key stays the same until the act has
 * succeeded or was refused, so that a try after a lost connection has no second effect.
 */
export function useOnce(): <T>(act: (key: string) => Promise<T>) => Promise<T> {
  const key = useRef('');
  return useCallback(async (act) => {
    if (key.current === '') key.current = idempotencyKey();
    try {
      const answer = await act(key.current);
      key.current = '';
      return answer;
    } catch (thrown) {
      const failed = asApiError(thrown);
      if (failed.status >= 400 && failed.status < 500) key.current = '';
      throw failed;
    }
  }, []);
}
