// What a reader chose: the zone of times. It is no secret, so it is kept in local storage.

import { createContext, use, useCallback, useMemo, useState, type ReactNode } from 'react';

import type { Zone } from '../format/time';

interface Preferences {
  zone: Zone;
  setZone: (zone: Zone) => void;
}

const Context = createContext<Preferences>({ zone: 'utc', setZone: () => undefined });

const key = 'zone';

export function PreferencesProvider({ children }: { children: ReactNode }) {
  const [zone, keep] = useState<Zone>(() => (read() === 'local' ? 'local' : 'utc'));
  const setZone = useCallback((next: Zone) => {
    keep(next);
    try {
      localStorage.setItem(key, next);
    } catch {
      // Storage is off, so the choice lasts until the page is left.
    }
  }, []);
  const value = useMemo(() => ({ zone, setZone }), [zone, setZone]);
  return <Context value={value}>{children}</Context>;
}

export function usePreferences(): Preferences {
  return use(Context);
}

function read(): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}
