// Moments, in UTC or in the zone of the reader, who chooses.

export type Zone = 'utc' | 'local';

/** A moment to the second: `2026-11-29 14:03:07 UTC`. */
export function moment(value: string, zone: Zone): string {
  const date = new Date(value);
  if (Number.isNaN(date.getTime())) return value;
  return `${day(value, zone)} ${clock(date, zone)} ${zone === 'utc' ? 'UTC' : zoneName(date)}`;
}

/** The day of a moment: `2026-11-29`. */
export function day(value: string, zone: Zone): string {
  if (/^\d{4}-\d{2}-\d{2}$/.test(value)) return value;
  const date = new Date(value);
  if (Number.isNaN(date.getTime())) return value;
  const parts =
    zone === 'utc'
      ? [date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate()]
      : [date.getFullYear(), date.getMonth() + 1, date.getDate()];
  return parts.map((part) => String(part).padStart(2, '0')).join('-');
}

/** How long ago or ahead a moment is: `in 3 h`, `2 d ago`. */
export function relative(value: string, now: number): string {
  const seconds = Math.round((Date.parse(value) - now) / 1000);
  if (Number.isNaN(seconds)) return '';
  const size = Math.abs(seconds);
  const [n, unit] =
    size < 60
      ? [size, 's']
      : size < 3_600
        ? [Math.round(size / 60), 'min']
        : size < 172_800
          ? [Math.round(size / 3_600), 'h']
          : [Math.round(size / 86_400), 'd'];
  if (n === 0) return 'now';
  return seconds < 0 ? `${n} ${unit} ago` : `in ${n} ${unit}`;
}

function clock(date: Date, zone: Zone): string {
  const parts =
    zone === 'utc'
      ? [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
      : [date.getHours(), date.getMinutes(), date.getSeconds()];
  return parts.map((part) => String(part).padStart(2, '0')).join(':');
}

function zoneName(date: Date): string {
  const part = new Intl.DateTimeFormat('en-US', { timeZoneName: 'short' })
    .formatToParts(date)
    .find((p) => p.type === 'timeZoneName');
  return part?.value ?? '';
}
