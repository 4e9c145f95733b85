/**
 * Returns the value that a table has for a name from outside; undefined for none. Names such as `constructor` are in
 * no table, although every object has them.
 */
export function own<T>(table: Record<string, T>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
