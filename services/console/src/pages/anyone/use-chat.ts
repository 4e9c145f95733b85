// A conversation: its turns, the answer under way, and what stops it.

import { useCallback, useEffect, useRef, useState } from 'react';

import { idempotencyKey } from '../../api/client';
import { asApiError, type ApiError } from '../../api/error';
import { bodyOf, openStream, servedOf, streamed, type ChatBody, type Served, type Wish } from './chat';
import { chatPieces, usageOf, type TokenUsage } from './stream';
import { askAsVisitor } from './visitor';
import { visitsOf, type Visits } from './visits';

export interface Turn {
  id: number;
  asked: string;
  text: string;
  thinking: string;
  state: 'waiting' | 'streaming' | 'whole' | 'stopped' | 'failed';
  /** Null until the answer's headers have come. */
  served: Served | null;
  usage: TokenUsage | null;
  finish: string;
}

export interface Chat {
  turns: Turn[];
  busy: boolean;
  error: ApiError | null;
  /** What a visitor has left; null until an answer has said it. */
  visits: Visits | null;
  /** Asks, and reports whether the question is in the conversation now. */
  ask: (question: string, wish: Wish, key: string) => Promise<boolean>;
  /** Asks the last question once more, in place of its answer that broke off. It is a request of its own. */
  askAgain: (wish: Wish, key: string) => Promise<boolean>;
  stop: () => void;
  startOver: () => void;
}

/** `told` is what the list of models said of a visitor's hour. */
export function useChat(told: Visits | null): Chat {
  const [turns, setTurns] = useState<Turn[]>([]);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const [visits, setVisits] = useState<Visits | null>(told);
  const stopper = useRef<AbortController | null>(null);
  const lastId = useRef(0);
  const unsure = useRef<Unsure | null>(null);

  const stop = useCallback(() => stopper.current?.abort(), []);
  useEffect(() => stop, [stop]); // a page that is left asks for nothing more

  async function ask(question: string, wish: Wish, key: string, before = turns): Promise<boolean> {
    const control = new AbortController();
    stopper.current = control;
    lastId.current += 1;
    const turn = newTurn(lastId.current, question);
    const body = bodyOf(wish, before, question);
    const pen = drawing(() => setTurns([...before, { ...turn }]));
    setBusy(true);
    setError(null);
    pen.now();
    let kept = true;
    try {
      if (key === '') await visit(turn, body, control.signal, (left) => setVisits((now) => left ?? now));
      else await stream(turn, body, key, control.signal, unsure, pen.soon);
      turn.state = 'whole';
    } catch (thrown) {
      const stopped = control.signal.aborted;
      if (!stopped) setError(asApiError(thrown));
      kept = turn.state === 'streaming'; // before that, nothing was answered
      turn.state = stopped ? 'stopped' : 'failed';
    }
    if (kept) pen.now();
    else pen.drop(() => setTurns(turns));
    setBusy(false);
    return kept;
  }

  async function askAgain(wish: Wish, key: string): Promise<boolean> {
    const last = turns.at(-1);
    return last !== undefined && ask(last.asked, wish, key, turns.slice(0, -1));
  }

  function startOver() {
    setTurns([]);
    setError(null);
  }

  return {
    turns,
    busy,
    error,
    visits,
    ask: (question, wish, key) => ask(question, wish, key),
    askAgain,
    stop,
    startOver,
  };
}

function newTurn(id: number, asked: string): Turn {
  return { id, asked, text: '', thinking: '', state: 'waiting', served: null, usage: null, finish: '' };
}

/** A stream whose connection was lost before an answer came. It may have been billed. */
interface Unsure {
  idempotency: string;
  text: string;
}

/** Streams an answer into a turn. A text whose answer was lost is sent again as the same request. */
async function stream(
  turn: Turn,
  body: ChatBody,
  key: string,
  signal: AbortSignal,
  unsure: { current: Unsure | null },
  draw: () => void,
) {
  const text = streamed(body);
  const sent = unsure.current?.text === text ? unsure.current : { idempotency: idempotencyKey(), text };
  unsure.current = null;
  const response = await openStream(key, text, sent.idempotency, signal).catch((thrown: unknown) => {
    if (!signal.aborted && asApiError(thrown).code === 'connection_lost') unsure.current = sent;
    throw thrown;
  });
  turn.served = servedOf(response.headers);
  turn.state = 'streaming';
  for await (const piece of chatPieces(response)) {
    if (piece.kind === 'text') turn.text += piece.text;
    else if (piece.kind === 'thinking') turn.thinking += piece.text;
    else if (piece.kind === 'finish') turn.finish = piece.reason;
    else turn.usage = piece.usage;
    draw();
  }
}

/** Puts a visitor's whole answer into a turn. */
async function visit(turn: Turn, body: ChatBody, signal: AbortSignal, left: (visits: Visits | null) => void) {
  const whole = await askAsVisitor(body, signal, (headers) => {
    left(visitsOf(headers, Date.now()));
    turn.served = servedOf(headers);
  });
  const choice = whole.choices[0];
  turn.text = choice?.message.content ?? choice?.message.refusal ?? '';
  turn.finish = choice?.finish_reason ?? '';
  turn.usage = usageOf(whole.usage);
}

/** How often a growing answer is drawn, in milliseconds. */
const drawEvery = 60;

/** Draws at once, or soon together with what comes until then. */
function drawing(draw: () => void) {
  let timer = 0;
  const cancel = () => {
    window.clearTimeout(timer);
    timer = 0;
  };
  return {
    now() {
      cancel();
      draw();
    },
    soon() {
      if (timer !== 0) return;
      timer = window.setTimeout(() => {
        timer = 0;
        draw();
      }, drawEvery);
    },
    drop(instead: () => void) {
      cancel();
      instead();
    },
  };
}
