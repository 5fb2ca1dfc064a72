import { neverConnected, type OutgoingMessage, type SendResult } from "#plugin";
import { render } from "./format.ts";
import { accountOf } from "./recipient.ts";

/** Where the daemon is, and which of its accounts speaks. */
export interface Daemon {
  url: string;
  /** As the daemon takes it: a number or an account id. */
  account: string;
  fetch: typeof fetch;
}

/** Codes of the daemon's answers. -5 and -6 are not in its manual. */
const CODE = { user: -1, io: -3, untrustedKey: -4, rateLimit: -5, captcha: -6, invalidParams: -32602, methodNotFound: -32601 };

interface SendOutcome {
  type?: string;
  token?: string;
  retryAfterSeconds?: number;
}
interface SendResponse {
  timestamp?: number;
  results?: SendOutcome[];
}
interface RpcAnswer {
  result?: SendResponse;
  error?: { code?: number; data?: { response?: SendResponse } | null };
}

/** Calls a method; `undefined` where the answer is not one of JSON-RPC. */
async function call(
  { url, account, fetch }: Daemon,
  id: string,
  method: string,
  params: Record<string, unknown>,
  signal: AbortSignal,
): Promise<{ response: Response; answer: RpcAnswer | undefined }> {
  const response = await fetch(`${url}/api/v1/rpc`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id, method, params: { account, ...params } }),
    redirect: "manual",
    signal,
  });
  const body = (await response.json().catch((error: unknown) => {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  })) as RpcAnswer | null | undefined;
  return { response, answer: body ?? undefined };
}

/** Sends one message. */
export async function send(daemon: Daemon, message: OutgoingMessage, signal: AbortSignal): Promise<SendResult> {
  const { text, styles } = render(message.text);
  const group = /^group:(.*)$/.exec(message.to)?.[1];
  // An id that `receive` gave: the time of the message and who wrote it.
  const [, quoteTimestamp, quoteAuthor] = /^(\d+):(.+)$/.exec(message.replyTo ?? "") ?? [];
  const params = {
    ...(group === undefined ? { recipient: [accountOf(message.to)] } : { groupId: group }),
    message: text,
    ...(styles.length === 0 ? {} : { textStyle: styles }),
    ...(quoteAuthor === undefined ? {} : { quoteTimestamp: Number(quoteTimestamp), quoteAuthor }),
  };
  try {
    const { response, answer } = await call(daemon, message.idempotencyKey, "send", params, signal);
    return response.ok ? sortAnswer(answer) : sortStatus(response);
  } catch (error) {
    return sortError(error);
  }
}

function sortStatus({ status, headers }: Response): SendResult {
  const reason = `the daemon's address answered ${status}`;
  if (status === 429) {
    const seconds = Number(headers.get("retry-after") ?? Number.NaN);
    return { status: "retry", reason, ...(seconds >= 0 ? { afterMs: seconds * 1000 } : {}) };
  }
  if (status >= 500) return { status: "retry", reason };
  return { status: "failed", reason: `${reason}: check that channels.signal.url is that of signal-cli's --http` };
}

function sortAnswer(answer: RpcAnswer | undefined): SendResult {
  const outcome = answer?.error?.data?.response ?? answer?.result;
  const results = outcome?.results ?? [];
  const is = (type: string): boolean => results.some((result) => result.type === type);
  if (answer?.result) {
    const { timestamp } = answer.result;
    return timestamp === undefined ? { status: "sent" } : { status: "sent", messageIds: [String(timestamp)] };
  }
  const code = answer?.error?.code;
  if (code === CODE.rateLimit || is("RATE_LIMIT_FAILURE")) {
    const seconds = Math.max(0, ...results.map((result) => result.retryAfterSeconds ?? 0));
    const asked = results.some((result) => result.token !== undefined);
    const reason = asked ? "Signal limits the rate until `signal-cli submitRateLimitChallenge` was answered" : "Signal limits the rate";
    return { status: "retry", reason, ...(seconds > 0 ? { afterMs: seconds * 1000 } : {}) };
  }
  if (code === CODE.untrustedKey || is("IDENTITY_FAILURE"))
    return { status: "failed", reason: "the recipient's key has changed: check it and run `signal-cli trust`" };
  if (is("UNREGISTERED_FAILURE")) return { status: "failed", reason: "the recipient is not on Signal" };
  if (code === CODE.io || is("NETWORK_FAILURE")) return { status: "retry", reason: "the daemon could not reach Signal" };
  if (code === CODE.captcha) return { status: "failed", reason: "Signal did not take the captcha: answer a new challenge" };
  if (code === CODE.user)
    return { status: "failed", reason: "the daemon refused the message: is the recipient on Signal, and the account in the group?" };
  if (code === CODE.invalidParams) return { status: "failed", reason: "the daemon does not have the account of channels.signal.account" };
  if (code === CODE.methodNotFound || code === -32600)
    return { status: "failed", reason: `the daemon does not know how to send (${code}): update signal-cli` };
  return { status: "unknown", reason: code === undefined ? "the daemon's answer was not JSON-RPC" : `the daemon failed inside (${code})` };
}

/** The code of a failed `fetch`; nothing else of it, since messages quote addresses. */
export function errorCode(error: unknown): string {
  const { cause, code, name } = (error ?? {}) as { cause?: { code?: unknown }; code?: unknown; name?: unknown };
  const found = [cause?.code, code, name].find((part) => typeof part === "string");
  return typeof found === "string" ? found : "error";
}

function sortError(error: unknown): SendResult {
  const code = errorCode(error);
  if (neverConnected(code)) return { status: "retry", reason: `the daemon cannot be reached (${code})` };
  return { status: "unknown", reason: `the connection to the daemon ended before its answer (${code})` };
}

/** Whether the daemon is there and has the account. */
export async function probe(daemon: Daemon, signal: AbortSignal): Promise<{ ok: true } | { ok: false; message: string }> {
  try {
    const check = await daemon.fetch(`${daemon.url}/api/v1/check`, { signal });
    await check.body?.cancel();
    if (!check.ok) return { ok: false, message: `the daemon's address answered ${check.status} to /api/v1/check` };
    // The cheapest method that needs the account: it asks nobody outside.
    const { response, answer } = await call(daemon, "probe", "listContacts", { recipient: [daemon.account] }, signal);
    if (answer?.error?.code === CODE.invalidParams)
      return { ok: false, message: "the daemon does not have the account of channels.signal.account" };
    return response.ok ? { ok: true } : { ok: false, message: `the daemon's address answered ${response.status}` };
  } catch (error) {
    return { ok: false, message: `the daemon cannot be reached (${errorCode(error)}): is \`signal-cli daemon --http\` running?` };
  }
}
