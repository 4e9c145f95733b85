// Counts, shares and durations for people.

/** A count with separators: `12,345`. */
export function count(value: number | string): string {
  const n = typeof value === 'string' ? Number(value) : value;
  return Number.isFinite(n) ? n.toLocaleString('en-US') : String(value);
}

/** A count in three digits: `1.2M`. */
export function compact(value: number): string {
  return value.toLocaleString('en-US', { notation: 'compact', maximumFractionDigits: 1 });
}

/** A share from 0 to 1 as a percentage: `99.9%`. Cut off, not rounded, so that only all is `100%`. */
export function percent(share: number, digits = 1): string {
  const scale = 10 ** digits;
  const cut = Math.floor(Number((share * 100 * scale).toPrecision(12))) / scale;
  return `${cut.toFixed(digits).replace(/\.0+$/, '')}%`;
}

/** Milliseconds: `840 ms`, `2.4 s`, `3 min`. */
export function milliseconds(value: number): string {
  if (value < 1_000) return `${Math.round(value)} ms`;
  if (value < 60_000) return `${(value / 1_000).toFixed(1)} s`;
  return duration(value / 1_000);
}

/** Seconds in the two largest units: `2 d 4 h`, `5 min 10 s`. */
export function duration(seconds: number): string {
  const parts: [number, string][] = [
    [86_400, 'd'],
    [3_600, 'h'],
    [60, 'min'],
    [1, 's'],
  ];
  let rest = Math.max(0, Math.round(seconds));
  const shown: string[] = [];
  for (const [size, name] of parts) {
    const n = Math.floor(rest / size);
    if (n > 0) shown.push(`${n} ${name}`);
    rest -= n * size;
    if (shown.length === 2 || (shown.length === 1 && n === 0)) break;
  }
  return shown.join(' ') || '0 s';
}
