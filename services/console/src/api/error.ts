// The page's one reader of errors. The API answers in two forms: OpenAI's envelope, and the flat form
// of sign-up, sign-in, upgrade and provider keys.

/** What a call to the API failed with. */
export class ApiError extends Error {
  /** The HTTP status; 0 where no answer came. */
  readonly status: number;
  /** The machine's word for it, for example `insufficient_credits`; `connection_lost` where no answer came. */
  readonly code: string;
  /** The field that is wrong, if one is. */
  readonly param: string | null;
  /** The request's id, which support asks for; empty where no answer came. */
  readonly requestId: string;
  /** Seconds until another try can succeed; null where the service does not say. */
  readonly retryAfter: number | null;

  constructor(
    message: string,
    fields: { status: number; code: string; param?: string | null; requestId?: string; retryAfter?: number | null },
  ) {
    super(message);
    this.name = 'ApiError';
    this.status = fields.status;
    this.code = fields.code;
    this.param = fields.param ?? null;
    this.requestId = fields.requestId ?? '';
    this.retryAfter = fields.retryAfter ?? null;
  }
}

/** Reads the error that an answer is. The body is its text, parsed or not. */
export function readError(response: Response, body: unknown): ApiError {
  const value = typeof body === 'string' ? parse(body) : body;
  const header = (name: string) => response.headers.get(name) ?? '';
  const base = {
    status: response.status,
    requestId: text(field(value, 'request_id')) || header('X-Request-ID'),
    retryAfter: seconds(header('Retry-After')),
  };
  const error = field(value, 'error');
  if (typeof error === 'object' && error !== null) {
    return new ApiError(text(field(error, 'message')) || unexplained(response.status), {
      ...base,
      code: text(field(error, 'code')) || text(field(error, 'type')) || 'unknown',
      param: text(field(error, 'param')) || null,
    });
  }
  return new ApiError(text(field(value, 'message')) || text(error) || unexplained(response.status), {
    ...base,
    code: text(field(value, 'code')) || 'unknown',
    param: text(field(value, 'param')) || null,
  });
}

/** The error of a call that got no answer. */
export function lostConnection(): ApiError {
  return new ApiError('The service did not answer. Check the connection, then try again.', {
    status: 0,
    code: 'connection_lost',
  });
}

/** Anything that was thrown, as an ApiError. */
export function asApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  if (thrown instanceof TypeError) return lostConnection(); // what fetch throws
  return new ApiError('The page failed. Load it again.', { status: 0, code: 'page_failed' });
}

function unexplained(status: number): string {
  return status >= 500 ? 'The service failed. Try again in a moment.' : `The service refused this (status ${status}).`;
}

function seconds(header: string): number | null {
  if (header === '') return null;
  const value = Number(header);
  if (Number.isFinite(value)) return Math.max(0, value);
  const date = Date.parse(header);
  return Number.isNaN(date) ? null : Math.max(0, Math.ceil((date - Date.now()) / 1000));
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body) as unknown;
  } catch {
    return null;
  }
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
