/** A problem of a config, a body or a file. `path` is the dotted path of the field, `message` says what to change. */
export interface Issue {
  path: string;
  message: string;
  /** For problems of the config: the file, and the place of the field or of the nearest one around it. Lines and columns count from 1. */
  file?: string;
  line?: number;
  column?: number;
  /** Further lines for the operator: an excerpt of the config or of a module, with a caret below the place. */
  detail?: string;
  /** The character of the field's text, from 0, where an expression in it is wrong. */
  offset?: number;
  /** For warnings about mappings: the rule that `lint.off` of the mapping silences. */
  rule?: string;
  /** True if the problem does not follow from the files of the config: the next start with the same files may succeed. */
  transient?: true;
}

interface RequestError {
  /** The HTTP status of the answer. */
  status: number;
  meaning: string;
}

/** Every code that an answer of the hooks interface, or a command, can carry. The tables here make docs/errors.md. */
export const REQUEST_ERRORS = {
  unauthorized: { status: 401, meaning: "The credential is missing or wrong." },
  address_not_allowed: {
    status: 403,
    meaning: "Requests from this address, or with this `Host` header, are not allowed.",
  },
  rate_limited: {
    status: 429,
    meaning: "The caller has sent too many requests, or has failed to authenticate too often.",
  },
  not_found: {
    status: 404,
    meaning: "Nothing has this address or this id, or it belongs to another caller.",
  },
  no_mapping: { status: 404, meaning: "No mapping names this path." },
  method_not_allowed: { status: 405, meaning: "The address does not take this HTTP method." },
  body_timeout: { status: 408, meaning: "The body did not arrive in time." },
  body_too_large: { status: 413, meaning: "The body is larger than the limit." },
  unsupported_media_type: { status: 415, meaning: "The content type is not supported." },
  invalid_json: { status: 400, meaning: "The body is not valid JSON." },
  invalid_body: {
    status: 400,
    meaning: "The body cannot be read, or a field of it is wrong.",
  },
  validation_failed: {
    status: 400,
    meaning: "The body does not satisfy the schema of the mapping (`validate`).",
  },
  unknown_agent: { status: 400, meaning: "The config has no agent with this id." },
  agent_not_allowed: { status: 400, meaning: "The agent is not in `hooks.allowedAgentIds`." },
  unknown_channel: { status: 400, meaning: "The config has no channel with this id." },
  invalid_recipient: {
    status: 400,
    meaning: "The recipient is missing, not allowed, or not one that the channel can send to.",
  },
  unknown_model: { status: 400, meaning: "The config has no such model or provider." },
  model_not_allowed: { status: 400, meaning: "The model is not in `agents.defaults.models`." },
  session_key_not_allowed: {
    status: 400,
    meaning: "The request may not choose its session key, or not this one.",
  },
  mapping_incomplete: {
    status: 400,
    meaning: "A template of the mapping came out empty where a value is required.",
  },
  idempotency_conflict: {
    status: 409,
    meaning: "The idempotency key has been used with another body.",
  },
  run_ended: {
    status: 409,
    meaning:
      "The run has ended already, so it cannot be cancelled, nor a call of it decided about.",
  },
  not_approver: {
    status: 403,
    meaning: "The caller is not in `tools.approvers`, so it may not decide about tool calls.",
  },
  approval_decided: { status: 409, meaning: "The approval has been decided already." },
  approval_expired: {
    status: 409,
    meaning: "The tool call was not decided about in time (`tools.approvalTimeout`).",
  },
  approval_changed: {
    status: 409,
    meaning: "The run no longer makes the call that the approval is about.",
  },
  not_retryable: {
    status: 409,
    meaning:
      "The run or the delivery cannot be retried, or the event not discarded or replayed, in its state.",
  },
  transform_failed: {
    status: 500,
    meaning: "The transform of the mapping failed, or returned a value that cannot be used.",
  },
  mapping_failed: {
    status: 500,
    meaning: "A condition, a template or an expression of the mapping failed.",
  },
  overloaded: { status: 503, meaning: "Too much work is waiting or running; try again later." },
  draining: { status: 503, meaning: "The gateway is stopping; try again." },
  store_unavailable: {
    status: 503,
    meaning: "The store cannot be reached or written to; try again later.",
  },
  internal: {
    status: 500,
    meaning: "Something failed inside the gateway; its log has the details.",
  },
  config_invalid: { status: 400, meaning: "The config has problems." },
  store_locked: { status: 503, meaning: "Another process uses the store." },
  usage: {
    status: 400,
    meaning: "An option of a command, or a field of an admin request, is wrong.",
  },
  too_many_actions: {
    status: 413,
    meaning: "The event would cause more actions than the limit. Hooks answer `body_too_large`.",
  },
  duplicate_document: { status: 409, meaning: "A document with the same content exists already." },
  no_route: { status: 409, meaning: "The reply still has no route." },
  document_shared: {
    status: 403,
    meaning: "The document belongs to other agents too, so this caller cannot change it.",
  },
  console_read_only: {
    status: 403,
    meaning: 'The console may write no file (`gateway.console: "read"`). The command line may.',
  },
  token_needed: {
    status: 403,
    meaning: "The console needs the gateway token again: it was shown more than 15 minutes ago.",
  },
  conflict: {
    status: 409,
    meaning: "What the change is of has changed since it was shown: a file.",
  },
  what_if_unavailable: {
    status: 501,
    meaning:
      "A comparison needs a second process, which this gateway cannot use; the message says why.",
  },
  not_confirmed: {
    status: 409,
    meaning: "The change sets fields, or makes tests fail, and that is not confirmed by name.",
  },
  not_landed: {
    status: 409,
    meaning: "The gateway did not use the file that was changed, so the file was put back.",
  },
  model_failed: { status: 502, meaning: "The model gave no answer, or none that could be used." },
  external_id_taken: { status: 409, meaning: "Another document has this external id." },
} as const satisfies Record<string, RequestError>;

export type ErrorCode = keyof typeof REQUEST_ERRORS;
export const ERROR_CODES = Object.keys(REQUEST_ERRORS) as ErrorCode[];

/** The HTTP status of a failure. */
export const getStatus = (code: ErrorCode): number => REQUEST_ERRORS[code].status;

/** The meanings of the error codes of runs. A batch that could not become a run keeps the code of its `Failure`. */
export const RUN_ERRORS = {
  timeout: "The turn took longer than its time limit.",
  cancelled:
    "The run was cancelled: by an operator, by `/stop`, by its caller, or because the gateway was stopping.",
  skipped: "The transform of the batch returned nothing to do.",
  outcome_unknown:
    "A tool call was started and no answer came, so it may or may not have been carried out. No decision was made in time, or a person gave the call up.",
  crashed:
    "The run was started several times and never came to an end, or its gateway ended during a turn of the API.",
  rate_limited: "The provider's rate limit was reached, and retries did not help.",
  provider_unavailable:
    "The provider could not be reached, reported an error of its own or ended its answer early, and retries did not help.",
  provider_refused:
    "The provider rejected the request: check the API key, the model's name, the base URL and the prompt.",
  context_too_long: "The input is longer than the window of every model that could be asked.",
  provider_error: "The provider gave an empty answer, or one that is not in its wire format.",
  unknown_agent: "The agent is no longer in `agents.list`.",
  unknown_model: "The model or its provider is not in the config.",
  model_not_allowed: "The model is not in `agents.defaults.models`.",
  store_unavailable: "The store could not be written to during the turn.",
  internal: "Something failed inside the gateway; its log has the run's id.",
} as const;

export type RunErrorCode = keyof typeof RUN_ERRORS | ErrorCode;

/** Returns true for an error of the provider, and not of its answer: it passes, sooner or later. */
export const isProviderAway = (code: RunErrorCode): boolean =>
  code === "rate_limited" || code === "provider_unavailable";

/** The meanings of the error codes of deliveries. */
export const DELIVERY_ERRORS = {
  no_route:
    "No recipient was known when the run ended. The delivery can be retried once there is a route.",
  skipped: "The run asked for no delivery, or there was nothing to send.",
  no_such_channel: "The channel is no longer in the config.",
  retry: "The last attempt failed; the delivery waits for the next one.",
  given_up: "All attempts failed, or `delivery.maxAge` was over before the next attempt.",
  refused: "The vendor refused the message; another attempt would be refused too.",
  unknown: "The vendor may or may not have the message, so it is not sent again automatically.",
  not_delivered: "The vendor took the message and reported later that it did not arrive.",
  decided: "The question was decided before it was sent, or no message of it was left to change.",
  crashed: "The delivery was started several times and never came to an end.",
} as const;

export type DeliveryErrorCode = keyof typeof DELIVERY_ERRORS;

/** An authentication scheme: of `Signature` no standard says more than that the request has to be signed. */
export type Challenge = "Bearer" | "Basic" | "Signature";

/** A failure as a value. A function returns it if a failure is an expected result. */
export interface Failure {
  code: ErrorCode;
  /** Says what to change. Never quotes a body, a token or an error message of a library. */
  message: string;
  issues?: Issue[];
  retryAfterSeconds?: number;
  /** For `unauthorized`: how the caller is to authenticate. Default: `Bearer`. */
  challenge?: Challenge;
  /** Further members of the answer, for example `documentId` of `duplicate_document`. */
  extra?: Record<string, unknown>;
}

/** The error class of Rouse. Thrown only if the caller cannot continue; expected failures are values. */
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

/** The parts of an unknown error that cannot quote input. */
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
  // The logger's serializer calls this again with a value that is safe already.
  if (made.has(error as SafeError)) return error as SafeError;
  if (!(error instanceof Error)) return { name: typeof error };
  const safe: SafeError = { name: CODE.test(error.name) ? error.name : "Error" };
  const { code, statusCode, status } = error as {
    code?: unknown;
    statusCode?: unknown;
    status?: unknown;
  };
  if (typeof code === "string" && CODE.test(code)) safe.code = code;
  const numeric = typeof statusCode === "number" ? statusCode : status;
  if (typeof numeric === "number") safe.status = numeric;
  if (error instanceof RouseError) safe.message = error.message;
  const frames = (error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  if (frames.length > 0) safe.frames = frames.slice(0, 8).map((line) => line.trim().slice(0, 200));
  made.add(safe);
  return safe;
}
