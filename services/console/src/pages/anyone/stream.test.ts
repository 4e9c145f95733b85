import { describe, expect, it } from 'vitest';

import { ApiError } from '../../api/error';
import { EventReader, chatPieces, piecesOf, usageOf, type Bounds, type Piece } from './stream';

const encode = (text: string) => new TextEncoder().encode(text);

/** The data of the events in some chunks. */
function eventsIn(...chunks: (string | Uint8Array)[]): string[] {
  const reader = new EventReader();
  return chunks.flatMap((chunk) => reader.push(typeof chunk === 'string' ? encode(chunk) : chunk));
}

interface Source {
  response: Response;
  cancelled: () => boolean;
}

/** An answer that arrives in these chunks; an error among them is a connection that breaks. */
function answerOf(...chunks: (string | Uint8Array | Error)[]): Source {
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const chunk = chunks.shift();
        if (chunk === undefined) controller.close();
        else if (chunk instanceof Error) controller.error(chunk);
        else controller.enqueue(typeof chunk === 'string' ? encode(chunk) : chunk);
      },
      cancel() {
        cancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { response: new Response(body, { headers: { 'X-Request-ID': 'from-header' } }), cancelled: () => cancelled };
}

/** All pieces of an answer, and what it ended with; null for a good end. */
async function read(response: Response, limits?: Bounds): Promise<{ pieces: Piece[]; error: unknown }> {
  const pieces: Piece[] = [];
  try {
    for await (const piece of chatPieces(response, limits)) pieces.push(piece);
    return { pieces, error: null };
  } catch (error) {
    return { pieces, error };
  }
}

function codeOf(error: unknown): string {
  return error instanceof ApiError ? error.code : String(error);
}

const chunk = (content: string) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`;

describe('EventReader', () => {
  it('returns the data of each event', () => {
    expect(eventsIn('data: a\n\ndata: b\n\n')).toEqual(['a', 'b']);
  });

  it.each(['\n', '\r\n', '\r'])('takes %j as the end of a line', (end) => {
    expect(eventsIn(`data: a${end}${end}data: b${end}${end}`)).toEqual(['a', 'b']);
  });

  it('reads the same wherever the chunks are cut', () => {
    const text = encode(': hello\r\ndata: {"é": "日本 🎉"}\r\n\r\nevent: x\rdata: b\r\rdata:c\ndata: d\n\n');
    const whole = eventsIn(text);
    expect(whole).toEqual(['{"é": "日本 🎉"}', 'b', 'c\nd']);
    for (let at = 0; at <= text.length; at += 1) expect(eventsIn(text.slice(0, at), text.slice(at))).toEqual(whole);
    expect(eventsIn(...Array.from(text, (byte) => Uint8Array.of(byte)))).toEqual(whole);
  });

  it('does not take \\r\\n in two chunks for two ends of lines', () => {
    expect(eventsIn('data: a\r', '\ndata: b\r', '\n\r', '\n')).toEqual(['a\nb']);
  });

  it('passes over comments, names, ids and lines without a meaning', () => {
    expect(eventsIn(': keep-alive\n\nevent: x\nid: 7\nretry: 5\nnothing\ndata: a\n\n')).toEqual(['a']);
  });

  it('takes one space away from a value, and no more', () => {
    expect(eventsIn('data:a\n\ndata: b\n\ndata:  c\n\n')).toEqual(['a', 'b', ' c']);
  });

  it('joins the lines of an event', () => {
    expect(eventsIn('data: a\ndata\ndata: b\n\n')).toEqual(['a\n\nb']);
  });

  it('passes over the mark of byte order', () => {
    expect(eventsIn(Uint8Array.of(0xef, 0xbb, 0xbf), 'data: a\n\n')).toEqual(['a']);
  });

  it('returns no event that has not ended', () => {
    expect(eventsIn('data: a\n')).toEqual([]);
    expect(eventsIn('data: a')).toEqual([]);
  });

  it('bounds an event, on one line or on many', () => {
    const limits = { event: 10, stream: 1000 };
    expect(() => new EventReader(limits).push(encode('data: 12345678901'))).toThrow(ApiError);
    expect(() => new EventReader(limits).push(encode('data: 123456\ndata: 123456\n'))).toThrow(ApiError);
    const growing = new EventReader(limits);
    growing.push(encode('data: '));
    expect(() => growing.push(encode('12345678901'))).toThrow(ApiError);
    expect(new EventReader(limits).push(encode('data: 1234567890\n\ndata: 1234567890\n\n'))).toHaveLength(2);
  });

  it('bounds the stream', () => {
    const reader = new EventReader({ event: 100, stream: 20 });
    reader.push(encode('data: 123\n\n'));
    expect(() => reader.push(encode('data: 123\n\n'))).toThrow(ApiError);
  });
});

describe('piecesOf', () => {
  const response = new Response(null, { headers: { 'X-Request-ID': 'from-header' } });

  it('reads text, refusal and the end', () => {
    const data = { choices: [{ index: 0, delta: { content: 'a', refusal: 'b' }, finish_reason: 'stop' }] };
    expect(piecesOf(JSON.stringify(data), response)).toEqual([
      { kind: 'text', text: 'a' },
      { kind: 'text', text: 'b' },
      { kind: 'finish', reason: 'stop' },
    ]);
  });

  it.each(['reasoning', 'reasoning_content'])('reads %s as thinking', (name) => {
    const data = { choices: [{ index: 0, delta: { [name]: 'hm' }, finish_reason: null }] };
    expect(piecesOf(JSON.stringify(data), response)).toEqual([{ kind: 'thinking', text: 'hm' }]);
  });

  it('reads usage from a chunk without choices', () => {
    const data = { choices: [], usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5, cost: 1.2e-7 } };
    expect(piecesOf(JSON.stringify(data), response)).toEqual([
      { kind: 'usage', usage: { prompt: 3, completion: 2, cost: '0.000000120' } },
    ]);
  });

  it('finds nothing in chunks that add nothing', () => {
    for (const data of [
      {},
      { choices: [] },
      { choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }], usage: null },
      { choices: [{ index: 0 }] },
      { choices: 'x', usage: { prompt_tokens: '3' } },
      { error: null },
    ]) {
      expect(piecesOf(JSON.stringify(data), response)).toEqual([]);
    }
  });

  it.each(['', 'hello', '[1]', '3', 'null', '{"choices":['])('refuses %j, which is no chunk', (data) => {
    expect(() => piecesOf(data, response)).toThrow(ApiError);
  });
});

describe('usageOf', () => {
  it('keeps a cost exact to the nano-dollar', () => {
    expect(usageOf({ prompt_tokens: 1, completion_tokens: 1, cost: 123456.123456789 })?.cost).toBe('123456.123456789');
    expect(usageOf({ prompt_tokens: 1, completion_tokens: 1, cost: 0 })?.cost).toBe('0.000000000');
  });

  it('says nothing of a cost that is not there', () => {
    expect(usageOf({ prompt_tokens: 1, completion_tokens: 2 })).toEqual({ prompt: 1, completion: 2, cost: null });
  });
});

describe('chatPieces', () => {
  it('reads an answer up to [DONE]', async () => {
    const { response } = answerOf(': keep-alive\n\n', chunk('Hel'), chunk('lo'), 'data: [DONE]\n\n');
    expect(await read(response)).toEqual({
      pieces: [
        { kind: 'text', text: 'Hel' },
        { kind: 'text', text: 'lo' },
      ],
      error: null,
    });
  });

  it('reads nothing behind [DONE], and ends the connection', async () => {
    const { response, cancelled } = answerOf(chunk('a'), `data: [DONE]\n\n${chunk('b')}`, chunk('c'));
    expect((await read(response)).pieces).toEqual([{ kind: 'text', text: 'a' }]);
    expect(cancelled()).toBe(true);
  });

  it('throws an error that stands inside the stream, after what came before it', async () => {
    const error = {
      error: { message: 'It broke.', type: 'server_error', param: null, code: 'upstream_error' },
      request_id: 'r-1',
    };
    const { response } = answerOf(chunk('a'), `data: ${JSON.stringify(error)}\n\n`);
    const { pieces, error: thrown } = await read(response);
    expect(pieces).toEqual([{ kind: 'text', text: 'a' }]);
    expect(thrown).toMatchObject({ message: 'It broke.', code: 'upstream_error', requestId: 'r-1' });
  });

  it('takes the id of the request from the headers where an error has none', async () => {
    const { response } = answerOf('data: {"error":{"message":"It broke.","code":null}}\n\n');
    expect((await read(response)).error).toMatchObject({ requestId: 'from-header' });
  });

  it('does not take a stream that just ends for a whole answer', async () => {
    const { pieces, error } = await read(answerOf(chunk('a')).response);
    expect(pieces).toHaveLength(1);
    expect(codeOf(error)).toBe('stream_broken');
    expect(codeOf((await read(answerOf(chunk('a'), 'data: [DONE]').response)).error)).toBe('stream_broken');
  });

  it('says that the connection was lost', async () => {
    const { error } = await read(answerOf(chunk('a'), new TypeError('network error')).response);
    expect(error).toMatchObject({ code: 'stream_broken', requestId: 'from-header' });
  });

  it('passes on that the reader has stopped it', async () => {
    const stopped = new DOMException('stopped', 'AbortError');
    expect((await read(answerOf(chunk('a'), stopped).response)).error).toBe(stopped);
  });

  it('ends the connection when the reader leaves', async () => {
    const { response, cancelled } = answerOf(chunk('a'), chunk('b'));
    for await (const piece of chatPieces(response)) {
      expect(piece).toEqual({ kind: 'text', text: 'a' });
      break;
    }
    expect(cancelled()).toBe(true);
  });

  it('gives up a stream that is too large, and ends its connection', async () => {
    const { response, cancelled } = answerOf(chunk('a'), chunk('b'.repeat(1000)), chunk('c'));
    const { error } = await read(response, { event: 500, stream: 10_000 });
    expect(codeOf(error)).toBe('stream_too_large');
    expect(cancelled()).toBe(true);
  });

  it('refuses an answer without a body', async () => {
    expect(codeOf((await read(new Response(null))).error)).toBe('stream_broken');
  });
});
