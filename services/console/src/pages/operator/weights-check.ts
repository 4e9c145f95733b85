// What must hold of the files of a model's weights, checked while an operator types. The catalog decides
// when they are saved (services/catalog: weights).

import type { Schemas } from '../../api/client';

export type WeightFile = Schemas['ModelFile'];

const maxFiles = 1000;

/** The files that a text lists, or what is wrong with it. */
export function readFiles(text: string, source: string): { files: WeightFile[]; problem: string } {
  if (text.trim() === '') return { files: [], problem: '' };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { files: [], problem: 'This is no JSON yet.' };
  }
  if (!Array.isArray(value)) return { files: [], problem: 'A list of files, between [ and ].' };
  if (value.length > maxFiles) return { files: [], problem: `At most ${maxFiles} files.` };
  const files: WeightFile[] = [];
  for (const [n, one] of value.entries()) {
    const file = fileOf(one);
    const problem = fileProblem(file, source);
    if (problem !== '') return { files: [], problem: `File ${n + 1}: ${problem}` };
    files.push(file);
  }
  return { files, problem: together(files) };
}

function fileOf(value: unknown): WeightFile {
  const of = (name: string): unknown =>
    typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
  const text = (name: string): string => {
    const member = of(name);
    return typeof member === 'string' ? member : '';
  };
  const size = of('size_bytes');
  return {
    filename: text('filename'),
    hash: text('hash').toLowerCase(),
    algorithm: text('algorithm') || 'sha256',
    size_bytes: typeof size === 'number' ? size : -1,
    url: text('url'),
  };
}

function fileProblem(file: WeightFile, source: string): string {
  const parts = file.filename.split('/');
  if (file.filename === '' || file.filename.length > 255) return 'filename has 1 to 255 characters.';
  if (parts.some((part) => part === '' || part === '.' || part === '..'))
    return 'filename is a relative path that leaves no folder.';
  if (parts.some((part) => part.startsWith(' ') || /[ .]$/.test(part)))
    return 'no part of filename begins with a space or ends with one or a dot.';
  if (!/^[\x20-\x7e]+$/.test(file.filename) || /[\\:*?"<>|]/.test(file.filename))
    return 'filename is printable ASCII without \\ : * ? " < > |';
  if (file.algorithm !== 'sha256') return 'algorithm is sha256.';
  if (!/^[0-9a-f]{64}$/.test(file.hash)) return 'hash is 64 hexadecimal digits.';
  if (!Number.isSafeInteger(file.size_bytes) || file.size_bytes < 0) return 'size_bytes is a whole number of bytes.';
  const url = urlProblem(file.url, 1024);
  if (url !== '') return `url ${url}`;
  return file.url.startsWith(source) ? '' : 'url begins with the source.';
}

/** What is wrong with an address of weights; empty for nothing. */
export function urlProblem(text: string, most: number): string {
  if (text.length > most) return `has at most ${most} characters.`;
  if (!/^[\x21-\x7e]+$/.test(text) || !URL.canParse(text)) return 'is an https address.';
  const url = new URL(text);
  if (url.protocol !== 'https:') return 'is an https address.';
  return url.username !== '' || url.password !== '' || text.includes('#')
    ? 'has neither credentials nor a fragment.'
    : '';
}

function together(files: WeightFile[]): string {
  const names = new Set<string>();
  for (const { filename } of files) {
    const name = filename.toLowerCase();
    if (names.has(name)) return `“${filename}” is there twice.`;
    names.add(name);
  }
  for (const name of names) {
    for (let at = name.lastIndexOf('/'); at > 0; at = name.lastIndexOf('/', at - 1)) {
      if (names.has(name.slice(0, at))) return `“${name.slice(0, at)}” is a file and a folder.`;
    }
  }
  const total = files.reduce((sum, file) => sum + BigInt(file.size_bytes), 0n);
  return total < 2n ** 53n ? '' : 'All files together have fewer than 2^53 bytes.';
}

/** How many files would come, go and change. */
export function filesDiff(before: WeightFile[], after: WeightFile[]) {
  const known = new Map(before.map((file) => [file.filename, file]));
  const next = new Set(after.map((file) => file.filename));
  const same = (a: WeightFile, b: WeightFile) => a.hash === b.hash && a.size_bytes === b.size_bytes && a.url === b.url;
  return {
    added: after.filter((file) => !known.has(file.filename)).map((file) => file.filename),
    removed: before.filter((file) => !next.has(file.filename)).map((file) => file.filename),
    changed: after.filter((file) => !same(known.get(file.filename) ?? file, file)).map((file) => file.filename),
  };
}
