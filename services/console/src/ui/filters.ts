import { useSearchParams } from 'react-router';

/**
 * Filters that live in the address, so that a view can be shared and comes back with the back button.
 * A filter at its default is left out of the address.
 */
export function useFilters<const T extends Record<string, string>>(
  defaults: T,
): [Record<keyof T, string>, (change: Partial<Record<keyof T, string>>) => void] {
  const [params, setParams] = useSearchParams();
  const values = Object.fromEntries(
    Object.entries(defaults).map(([name, value]) => [name, params.get(name) ?? value]),
  ) as Record<keyof T, string>;
  function set(change: Partial<Record<keyof T, string>>) {
    setParams(
      (now) => {
        const next = new URLSearchParams(now);
        for (const [name, value] of Object.entries(change) as [string, string][]) {
          if (value === defaults[name]) next.delete(name);
          else next.set(name, value);
        }
        return next;
      },
      { replace: true },
    );
  }
  return [values, set];
}
