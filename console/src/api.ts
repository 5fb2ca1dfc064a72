import { signal } from "@preact/signals";

/** The gateway's answer to a request that it refused, or the reason why there is no answer. */
export class AskError extends Error {
  override name = "AskError";
  /** `signed_out`, `unreachable`, or the code of the gateway's error. */
  readonly code: string;
  readonly status: number;
  /** Details, such as the problems of a config. */
  readonly issues: readonly { path: string; message: string; detail?: string }[];
  constructor(code: string, message: string, status = 0, issues: AskError["issues"] = []) {
    super(message);
    this.code = code;
    this.status = status;
    this.issues = issues;
  }
}

/** True if the page repeats the request by itself, once the gateway answers or the reader has signed in again. */
export const isPassing = (error: unknown): boolean =>
  error instanceof AskError && (error.code === "unreachable" || error.code === "signed_out");

/** Since when the gateway does not answer; null while it does. */
export const awaySince = signal<Date | null>(null);
/** True after the session has ended. The page stays as it is, and a dialog above it asks for the token. */
export const signedOut = signal(false);
/** The version that answered first, and the one that answers now: a newer one offers to load the page again. */
export const versions = signal<{ first: string; now: string } | null>(null);

/** The answer that the gateway gives with an operation. */
export type Answer<Operation extends (...given: never[]) => unknown> = Awaited<
  ReturnType<Operation>
>;

export interface AskOptions {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Sent as JSON. */
  body?: unknown;
  signal?: AbortSignal;
}

/** The error that an answer carries. */
async function readError(response: Response): Promise<AskError> {
  const answer = (await response.json().catch(() => null)) as {
    error?: { code?: string; message?: string; issues?: AskError["issues"] };
  } | null;
  return new AskError(
    answer?.error?.code ?? "unknown",
    answer?.error?.message ?? `The gateway answered with status ${response.status}.`,
    response.status,
    answer?.error?.issues,
  );
}

export const UNREACHABLE = {
  code: "unreachable",
  message: "The gateway does not answer. What is shown may be old; the page tries again by itself.",
};

/** The error of a request without a complete answer. */
function toUnreachable(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return error;
  awaySince.value ??= new Date();
  return new AskError(UNREACHABLE.code, UNREACHABLE.message);
}

/** Counts the times that the reader signed in on this page. */
let signIns = 0;

async function send(path: string, options: AskOptions): Promise<Response> {
  const { method = "GET", body, signal } = options;
  const json = body !== undefined;
  const before = signIns;
  let response: Response;
  try {
    response = await fetch(`/admin/v1${path}`, {
      method,
      headers: { "x-rouse-console": "1", ...(json ? { "content-type": "application/json" } : {}) },
      ...(json ? { body: JSON.stringify(body) } : {}),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    throw toUnreachable(error, signal);
  }
  awaySince.value = null;
  const version = response.headers.get("x-rouse-version");
  if (version !== null) versions.value = { first: versions.value?.first ?? version, now: version };
  if (response.status === 401) {
    // It was sent before the session that there is now.
    if (signIns !== before) return send(path, options);
    signedOut.value = true;
    throw new AskError("signed_out", "Your session has ended. Sign in again to go on.", 401);
  }
  if (response.ok) return response;
  throw await readError(response);
}

/** Asks the admin API, such as `ask<{ events: EventSummary[] }>("/events?limit=50")`. Throws `AskError`. */
export async function ask<T>(path: string, options: AskOptions = {}): Promise<T> {
  return (await (await send(path, options)).json()) as T;
}

async function* readLines(response: Response, signal?: AbortSignal): AsyncGenerator<string> {
  let rest = "";
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      const lines = (rest + read.value).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
    if (rest !== "") yield rest;
  } catch (error) {
    throw toUnreachable(error, signal);
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Reads an answer of one JSON object a line (NDJSON) while it arrives. Leaving the loop ends the request. */
export async function* askLines<T>(path: string, options: AskOptions = {}): AsyncGenerator<T> {
  for await (const line of readLines(await send(path, options), options.signal))
    if (line.trim() !== "") yield JSON.parse(line) as T;
}

/** Signs in with the gateway token. Null, or why not. */
export async function signIn(token: string): Promise<string | null> {
  const response = await fetch("/console/session", {
    method: "POST",
    headers: { "x-rouse-console": "1" },
    body: new URLSearchParams({ token }),
  }).catch(() => null);
  if (response === null) return "The gateway does not answer. Try again in a moment.";
  if (response.ok) {
    signIns++;
    signedOut.value = false;
    return null;
  }
  return response.status === 429
    ? "Too many tries. Wait a minute, then try again."
    : "That is not the gateway token.";
}

/** Signs out, and shows the sign-in form. */
export async function signOut(): Promise<void> {
  await fetch("/console/session/end", { method: "POST" }).catch(() => null);
  location.reload();
}
