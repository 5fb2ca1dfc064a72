import type * as WebApi from "@slack/web-api";
import { neverConnected, type Channel, type OutgoingMessage, type PluginLog, type SendResult } from "#plugin";
import { toMarkdown, toMrkdwn } from "./format.ts";

/** The longest `markdown_text`. */
export const MAX_MARKDOWN = 12_000;
/** What the vendor takes of `text`; it would cut a longer one. */
const MAX_TEXT = 40_000;
/** A wait where the vendor names none. */
const DEFAULT_WAIT_MS = 1_000;
/** Errors after which a post was not made and may be later. */
const PASSING = new Set(["ratelimited", "rate_limited", "service_unavailable", "request_timeout", "team_added_to_org"]);
/** Of these the vendor says that some of the work may have been done. */
const UNSURE = new Set(["fatal_error", "internal_error"]);
/** Answers of a server that does not know `markdown_text`. */
const NO_MARKDOWN = new Set(["no_text", "invalid_arguments", "markdown_text_conflict"]);

/** What the parts of the plugin share. */
export interface SlackContext {
  config: { botToken: string; apiUrl: string };
  fetch: typeof fetch;
  log: PluginLog;
}

/** Loads the vendor's client; a test may bring another. */
export type LoadWebApi = () => Promise<Pick<typeof WebApi, "WebClient">>;

/** The vendor's client logs requests, and with them texts: nothing of it is kept. */
export const silent: WebApi.Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  setLevel() {},
  setName() {},
  getLevel: () => "error" as WebApi.LogLevel,
};

/** Options of a client that asks once and obeys `signal`: the outbox waits, not the client. */
export function clientOptions({ config, fetch }: SlackContext, signal: AbortSignal): WebApi.WebClientOptions {
  return {
    slackApiUrl: config.apiUrl,
    fetch: (url, init) => fetch(url, { ...init, signal }),
    retryConfig: { retries: 0 },
    rejectRateLimitedCalls: true,
    logger: silent,
  };
}

/** What to tell where an optional package is not there; undefined for any other error. */
export function missingPackage(error: unknown, name: string): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code;
  return code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND" ? `install ${name}: the channel needs it` : undefined;
}

/** The members of the client's errors. */
interface Failure {
  code?: string;
  data?: { error?: string; response_metadata?: { retryAfter?: number } };
  statusCode?: number;
  retryAfter?: number;
  original?: unknown;
  message?: string;
}

/** How a call that failed ended. The reason holds a code of the vendor's or of the network, never a text. */
export function sortError(error: unknown): Exclude<SendResult, { status: "sent" }> {
  const { code: kind, data, statusCode = 0, retryAfter, original, message } = error as Failure;
  const afterMs = (seconds = 0): number => seconds * 1000 || DEFAULT_WAIT_MS;
  if (kind === "slack_webapi_platform_error") {
    const code = /^[a-z0-9_]{1,80}$/.exec(data?.error ?? "")?.[0];
    const reason = `slack answered ${code ?? "what is not its format"}`;
    if (code === undefined || UNSURE.has(code)) return { status: "unknown", reason };
    return PASSING.has(code)
      ? { status: "retry", reason, afterMs: afterMs(data?.response_metadata?.retryAfter) }
      : { status: "failed", reason };
  }
  // The client has a plain error for a 429 that names no wait.
  if (kind === "slack_webapi_rate_limited_error" || message?.startsWith("Retry header did not contain") === true)
    return { status: "retry", reason: "slack answered 429", afterMs: afterMs(retryAfter) };
  if (kind === "slack_webapi_http_error") return { status: statusCode >= 500 ? "retry" : "failed", reason: `slack answered ${statusCode}` };
  const code = networkCode(original ?? error);
  if (code !== undefined && neverConnected(code)) return { status: "retry", reason: `slack cannot be reached (${code})` };
  return { status: "unknown", reason: `the connection ended before slack answered${code === undefined ? "" : ` (${code})`}` };
}

function networkCode(error: unknown): string | undefined {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown };
  if (typeof code === "string" && /^[A-Z_0-9]{1,60}$/.test(code)) return code;
  return cause === undefined ? undefined : networkCode(cause);
}

/** Makes `send` and `probe`. */
export function createSender(
  context: SlackContext,
  load: LoadWebApi = () => import("@slack/web-api"),
): Required<Pick<Channel, "send" | "probe">> {
  // One client per call, since a client has no signal of a call's own.
  const connect = async (signal: AbortSignal): Promise<WebApi.WebClient | string> => {
    try {
      const { WebClient } = await load();
      return new WebClient(context.config.botToken, clientOptions(context, signal));
    } catch (error) {
      const missing = missingPackage(error, "@slack/web-api");
      if (missing === undefined) throw error;
      return missing;
    }
  };

  /** Conversations with one member, by the member's id: they stay. */
  const direct = new Map<string, string>();
  const conversationOf = async (client: WebApi.WebClient, to: string): Promise<string> => {
    const known = to.startsWith("user:") ? direct.get(to) : to;
    if (known !== undefined) return known;
    const { channel } = await client.conversations.open({ users: to.slice("user:".length) });
    if (channel?.id !== undefined) direct.set(to, channel.id);
    return channel?.id ?? "";
  };

  const post = async (client: WebApi.WebClient, channel: string, { text, thread }: OutgoingMessage): Promise<SendResult> => {
    // Previews would have the vendor fetch an address that the model chose.
    const about = { channel, unfurl_links: false, unfurl_media: false, ...(thread === undefined ? {} : { thread_ts: thread }) };
    const call = (content: Record<string, string>) =>
      client.apiCall("chat.postMessage", { ...about, ...content }) as Promise<WebApi.ChatPostMessageResponse>;
    const inText = async (): Promise<WebApi.ChatPostMessageResponse | undefined> => {
      const mrkdwn = toMrkdwn(text);
      return mrkdwn.length > MAX_TEXT ? undefined : call({ text: mrkdwn });
    };
    const markdown = toMarkdown(text);
    const answer = await (markdown.length > MAX_MARKDOWN ? inText() : call({ markdown_text: markdown })).catch((error: Failure) => {
      if (!NO_MARKDOWN.has(error.data?.error ?? "")) throw error;
      return inText();
    });
    if (!answer) return { status: "failed", reason: "the text is too long for slack" };
    return { status: "sent", messageIds: answer.ts === undefined ? [] : [messageId(answer.channel ?? channel, answer.ts)] };
  };

  return {
    async send(message, signal) {
      const client = await connect(signal);
      if (typeof client === "string") return { status: "failed", reason: client };
      let channel: string;
      try {
        channel = await conversationOf(client, message.to);
      } catch (error) {
        // Nothing has been posted yet, so nothing is unknown.
        const sorted = sortError(error);
        return sorted.status === "unknown" ? { ...sorted, status: "retry" } : sorted;
      }
      try {
        return await post(client, channel, message);
      } catch (error) {
        return sortError(error);
      }
    },
    async probe(signal) {
      const client = await connect(signal);
      if (typeof client === "string") return { ok: false, message: client };
      try {
        await client.auth.test();
        return { ok: true };
      } catch (error) {
        return { ok: false, message: sortError(error).reason };
      }
    },
  };
}

/** The id of a message: the vendor's own is unique in its conversation alone. */
export function messageId(channel: string, ts: string): string {
  return `${channel}:${ts}`;
}
