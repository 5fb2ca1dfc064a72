import { neverConnected, type SendResult } from "#plugin";

/** A wait where the server names none. */
const DEFAULT_WAIT_MS = 1_000;
/** The answer to a repeat while the first request is still being worked on. */
const IN_FLIGHT = "api.post.deduplicate_create_post.pending";

/** What the parts of the plugin share. */
export interface MattermostContext {
  config: { url: string; token: string };
  fetch: typeof fetch;
}

type Failed = Exclude<SendResult, { status: "sent" }>;

/** What a call gave, or how it failed, sorted as `send` answers. */
export type Answer<T> = { ok: true; body: T } | { ok: false; failed: Failed };

/** Calls the REST API. Reasons hold the status and the server's error id, never its text. */
export async function call<T>({ config, fetch }: MattermostContext, signal: AbortSignal, path: string, body?: object): Promise<Answer<T>> {
  const headers = { authorization: `Bearer ${config.token}`, ...(body && { "content-type": "application/json" }) };
  const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  try {
    const response = await fetch(`${config.url.replace(/\/+$/, "")}/api/v4/${path}`, { ...init, headers, signal, redirect: "error" });
    if (response.ok) return { ok: true, body: (await response.json()) as T };
    return { ok: false, failed: sort(response, idOf(await response.text())) };
  } catch (error) {
    const code = networkCode(error);
    if (code !== undefined && neverConnected(code))
      return { ok: false, failed: { status: "retry", reason: `mattermost cannot be reached (${code})` } };
    const reason = `the connection ended before mattermost answered${code === undefined ? "" : ` (${code})`}`;
    return { ok: false, failed: { status: "unknown", reason } };
  }
}

function sort({ status, headers }: Response, id: string | undefined): Failed {
  const reason = `mattermost answered ${status}${id === undefined ? "" : ` (${id})`}`;
  if (id === IN_FLIGHT) return { status: "unknown", reason };
  if (status === 429) {
    // Seconds to wait, in both.
    const seconds = Number(headers.get("retry-after") ?? headers.get("x-ratelimit-reset"));
    return { status: "retry", reason, afterMs: seconds > 0 ? seconds * 1000 : DEFAULT_WAIT_MS };
  }
  return { status: status >= 500 || status === 408 ? "retry" : "failed", reason };
}

function idOf(text: string): string | undefined {
  try {
    return /^[\w.]{1,100}$/.exec((JSON.parse(text) as { id: string }).id)?.[0];
  } catch {
    return undefined;
  }
}

function networkCode(error: unknown): string | undefined {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown };
  if (typeof code === "string" && /^[A-Z_0-9]{1,60}$/.test(code)) return code;
  return cause === undefined ? undefined : networkCode(cause);
}
