/** One thing that is wrong in a config, a body or a file: `path` is the dotted path of the field, `message` says what to change. */
export interface Issue {
  path: string;
  message: string;
  /** For problems of the config: the file, and the place of the field or of the nearest one around it. Lines and columns count from 1. */
  file?: string;
  line?: number;
  column?: number;
  /** Further lines for the operator: an excerpt of the config or of a module, with a caret below the place. */
  detail?: string;
  /** The files of the config do not prove it: with the same files the next start may go well. */
  transient?: true;
}

/** Every code that an answer of the hooks interface, or a command, can carry, with its HTTP status. */
export const ERROR_STATUS = {
  unauthorized: 401,
  address_not_allowed: 403,
  rate_limited: 429,
  not_found: 404,
  no_mapping: 404,
  method_not_allowed: 405,
  body_timeout: 408,
  body_too_large: 413,
  unsupported_media_type: 415,
  invalid_json: 400,
  invalid_body: 400,
  validation_failed: 400,
  unknown_agent: 400,
  agent_not_allowed: 400,
  unknown_channel: 400,
  invalid_recipient: 400,
  unknown_model: 400,
  model_not_allowed: 400,
  session_key_not_allowed: 400,
  mapping_incomplete: 400,
  idempotency_conflict: 409,
  run_ended: 409,
  transform_failed: 500,
  mapping_failed: 500,
  overloaded: 503,
  draining: 503,
  store_unavailable: 503,
  internal: 500,
  config_invalid: 400,
  store_locked: 503,
  usage: 400,
  too_many_actions: 413,
  duplicate_document: 409,
  no_route: 409,
  document_shared: 403,
  external_id_taken: 409,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;
export const ERROR_CODES = Object.keys(ERROR_STATUS) as ErrorCode[];

/** A failure as a value: what a function returns where a failure is an expected result. */
export interface Failure {
  code: ErrorCode;
  /** Says what to change. Never quotes a body, a token or another's error message. */
  message: string;
  issues?: Issue[];
  retryAfterSeconds?: number;
  /** Further members of the answer, for example `documentId` of `duplicate_document`. */
  extra?: Record<string, unknown>;
}

/** The one error class. Thrown only where the caller cannot go on; expected results are values. */
export class RouseError extends Error implements Failure {
  readonly code: ErrorCode;
  readonly issues?: Issue[];
  readonly retryAfterSeconds?: number;
  readonly extra?: Record<string, unknown>;

  constructor(failure: Failure, options?: ErrorOptions) {
    super(failure.message, options);
    this.name = "RouseError";
    this.code = failure.code;
    if (failure.issues) this.issues = failure.issues;
    if (failure.retryAfterSeconds !== undefined) this.retryAfterSeconds = failure.retryAfterSeconds;
    if (failure.extra) this.extra = failure.extra;
  }
}

/** What is left of an unknown error once everything that may quote input is gone. */
export interface SafeError {
  name: string;
  code?: string;
  /** Only for our own errors: their messages never quote input. */
  message?: string;
  status?: number;
  frames?: string[];
}

const made = new WeakSet<SafeError>();
const CODE = /^[A-Za-z0-9_.-]{1,64}$/;

/**
 * The allow-list serializer: turns any thrown value into what may be logged or stored.
 * The messages of parsers, drivers and model clients quote the input, so only names, codes,
 * statuses and stack frames (never the stack's first line) come through.
 */
export function safeError(error: unknown): SafeError {
  // What went through once comes through the logger's serializer as it is.
  if (made.has(error as SafeError)) return error as SafeError;
  if (!(error instanceof Error)) return { name: typeof error };
  const safe: SafeError = { name: CODE.test(error.name) ? error.name : "Error" };
  const { code, statusCode, status } = error as { code?: unknown; statusCode?: unknown; status?: unknown };
  if (typeof code === "string" && CODE.test(code)) safe.code = code;
  const numeric = typeof statusCode === "number" ? statusCode : status;
  if (typeof numeric === "number") safe.status = numeric;
  if (error instanceof RouseError) safe.message = error.message;
  const frames = (error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  if (frames.length > 0) safe.frames = frames.slice(0, 8).map((line) => line.trim().slice(0, 200));
  made.add(safe);
  return safe;
}
