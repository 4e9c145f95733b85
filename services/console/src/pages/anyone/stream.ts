// Reads a streamed answer to a chat: server-sent events, each with one chunk of the answer. Nothing here
// knows the page, so that all of it is tested without one.

import { ApiError, readError } from '../../api/error';

/** What may arrive. A stream beyond it is given up, so that no provider fills the reader's memory. */
export interface Bounds {
  /** Characters of one event. */
  event: number;
  /** Bytes of all events. */
  stream: number;
}

export const bounds: Bounds = { event: 1 << 20, stream: 32 << 20 };

/** What is billed. */
export interface TokenUsage {
  prompt: number;
  completion: number;
  /** Dollars as a decimal string; null where the stream does not say. */
  cost: string | null;
}

/** What an event adds to the answer. */
export type Piece =
  | { kind: 'text'; text: string }
  | { kind: 'thinking'; text: string }
  | { kind: 'finish'; reason: string }
  | { kind: 'usage'; usage: TokenUsage };

/**
 * Cuts bytes into events, as the WHATWG's text of server-sent events says, and returns their data. Chunks
 * may end anywhere: within a character, within a line, between the two characters of a line's end.
 */
export class EventReader {
  private readonly limits: Bounds;
  private readonly decoder = new TextDecoder();
  private line = ''; // the beginning of a line that has not ended
  private data: string[] = []; // the lines of an event that has not ended
  private size = 0; // characters in data
  private bytes = 0;
  private afterReturn = false; // a \n that comes next belongs to the line before

  constructor(limits: Bounds = bounds) {
    this.limits = limits;
  }

  /** Returns the data of the events that end in these bytes. */
  push(bytes: Uint8Array): string[] {
    this.bytes += bytes.length;
    if (this.bytes > this.limits.stream) throw tooLarge();
    const text = this.decoder.decode(bytes, { stream: true });
    const events: string[] = [];
    if (text === '') return events;
    let from = this.afterReturn && text.startsWith('\n') ? 1 : 0;
    const ends = /\r\n|\r|\n/g;
    ends.lastIndex = from;
    for (let end = ends.exec(text); end !== null; end = ends.exec(text)) {
      const line = this.line + text.slice(from, end.index);
      this.line = '';
      this.take(line, events);
      from = ends.lastIndex;
    }
    this.afterReturn = text.endsWith('\r');
    this.line += text.slice(from);
    this.checkSize();
    return events;
  }

  private take(line: string, events: string[]) {
    if (line === '') {
      if (this.data.length > 0) events.push(this.data.join('\n'));
      this.data = [];
      this.size = 0;
      return;
    }
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon); // empty of a comment
    if (name !== 'data') return; // the names and ids of events mean nothing to a chat
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    this.data.push(value);
    this.size += value.length;
    this.checkSize();
  }

  private checkSize() {
    if (this.size + this.line.length > this.limits.event) throw tooLarge();
  }
}

/**
 * Returns what one event adds to the answer. An event that is an error throws it; `response` has the
 * request's id.
 */
export function piecesOf(data: string, response: Response): Piece[] {
  const chunk = parse(data);
  if (!isObject(chunk)) throw broken('The answer has a part that cannot be read.', response);
  if (chunk.error !== undefined && chunk.error !== null) throw readError(response, chunk);
  const pieces: Piece[] = [];
  const choice: unknown = Array.isArray(chunk.choices) ? chunk.choices[0] : undefined;
  if (isObject(choice)) {
    const delta = isObject(choice.delta) ? choice.delta : {};
    // Engines that think before they answer use one of two names, which OpenAI's form does not have.
    for (const name of ['reasoning_content', 'reasoning']) add(pieces, 'thinking', delta[name]);
    for (const name of ['content', 'refusal']) add(pieces, 'text', delta[name]);
    if (typeof choice.finish_reason === 'string') pieces.push({ kind: 'finish', reason: choice.finish_reason });
  }
  const usage = usageOf(chunk.usage);
  if (usage !== null) pieces.push({ kind: 'usage', usage });
  return pieces;
}

/** Reads the usage of a chunk or of a whole answer; null where it has none. */
export function usageOf(value: unknown): TokenUsage | null {
  if (!isObject(value)) return null;
  const { prompt_tokens: prompt, completion_tokens: completion, cost } = value;
  if (typeof prompt !== 'number' || typeof completion !== 'number') return null;
  // A cost is exact to the nano-dollar. Below a million dollars it has at most 15 digits, which a number keeps.
  return { prompt, completion, cost: typeof cost === 'number' ? cost.toFixed(9) : null };
}

/**
 * Returns the pieces of a streamed answer as they arrive. A stream that ends without [DONE] throws, and so
 * does an error inside it. Whoever stops early ends the connection.
 */
export async function* chatPieces(response: Response, limits: Bounds = bounds): AsyncGenerator<Piece, void> {
  if (response.body === null) throw broken('The answer is empty.', response);
  const reader = response.body.getReader();
  const events = new EventReader(limits);
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((thrown: unknown) => {
        throw thrown instanceof TypeError
          ? broken('The connection was lost before the answer ended.', response)
          : thrown;
      });
      if (done) throw broken('The answer broke off before its end.', response);
      for (const data of events.push(value)) {
        if (data.trim() === '[DONE]') return;
        if (data !== '') yield* piecesOf(data, response);
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined); // of a connection that is lost already
  }
}

function add(pieces: Piece[], kind: 'text' | 'thinking', text: unknown) {
  if (typeof text === 'string' && text !== '') pieces.push({ kind, text });
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data) as unknown;
  } catch {
    return null;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function broken(message: string, response: Response): ApiError {
  return new ApiError(message, {
    status: 0,
    code: 'stream_broken',
    requestId: response.headers.get('X-Request-ID') ?? '',
  });
}

function tooLarge(): ApiError {
  return new ApiError('The answer is larger than this page reads.', { status: 0, code: 'stream_too_large' });
}
