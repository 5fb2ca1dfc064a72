import type * as WebApi from "@slack/web-api";
import {
  ChannelError,
  conversations,
  loadPackage,
  renderVerdict,
  sameRule,
  sendOrReconcile,
  sentResult,
  vendorChannel,
} from "#channel-kit";
import type { ErrorRules } from "#channel-kit";
import type { ApprovalQuestion, Channel, EndedQuestion, OutgoingMessage, PluginContext, SendResult, Verdict } from "#plugin";
import { toMarkdown, toMrkdwn } from "./format.ts";

/** The longest `markdown_text`. */
export const MAX_MARKDOWN = 12_000;
/** What the vendor takes of `text`; it would cut a longer one. */
const MAX_TEXT = 40_000;
/** The longest text of a block. */
const MAX_BLOCK = 3_000;
/** Answers of a server that does not know `markdown_text`. */
const NO_MARKDOWN = new Set(["no_text", "invalid_arguments", "markdown_text_conflict"]);
/** What a post is known by afterwards: the vendor keeps metadata with each message. */
const EVENT_TYPE = "rouse_reply";
/** Leaves time to find out what became of a post within the time that the gateway gives a send. */
const PATIENCE = { postMs: 15_000, looks: 3, pauseMs: 500 };
/** By how much the clocks of the vendor and of this machine may differ. */
const SKEW_MS = 60_000;

/** What the parts of the plugin share. */
export type SlackContext = Pick<PluginContext<{ botToken: string; apiUrl: string }>, "config" | "fetch" | "clock">;

/** The members of the errors of the vendor's client. */
interface SdkError {
  code?: string;
  data?: { error?: string; response_metadata?: { retryAfter?: number } };
  statusCode?: number;
  retryAfter?: number;
  message?: string;
}

/** Reasons hold a code of the vendor's or of the network, never a text. */
export const VENDOR: ErrorRules = {
  name: "slack",
  defaultWaitMs: 1_000,
  errors: {
    // After these a post was not made, and may be later.
    ...sameRule(["ratelimited", "rate_limited", "service_unavailable", "request_timeout", "team_added_to_org"], { status: "retry" }),
    // Of these the vendor says that some of the work may have been done.
    ...sameRule(["fatal_error", "internal_error"], { status: "unknown" }),
  },
  sort(error) {
    const { code: kind, data, statusCode: status, retryAfter = 0, message } = error as SdkError;
    if (kind === "slack_webapi_platform_error") return { code: data?.error, afterMs: (data?.response_metadata?.retryAfter ?? 1) * 1000 };
    if (kind === "slack_webapi_http_error") return { status };
    // The client has a plain error for a 429 that names no wait.
    const limited = kind === "slack_webapi_rate_limited_error" || message?.startsWith("Retry header did not contain");
    return limited ? { status: 429, afterMs: retryAfter * 1000 } : undefined;
  },
};

const nothing = (): void => undefined;
const kept = { debug: nothing, info: nothing, warn: nothing, error: nothing, setLevel: nothing, setName: nothing };
/** The vendor's client logs requests, and with them texts: nothing of it is kept. */
export const silent: WebApi.Logger = { ...kept, getLevel: () => "error" as WebApi.LogLevel };

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

/** What to tell where a package of the vendor's is not there. */
export const advice = (name: string): string => `install ${name}: the channel needs it`;

/** The id of a message: the vendor's own is unique in its conversation alone. */
export const messageId = (channel: string, ts: string): string => `${channel}:${ts}`;

type Load = () => Promise<Pick<typeof WebApi, "WebClient">>;

/** Creates the vendor's clients: one per call, since a client has no signal of a call's own. A test may bring another client. */
export function createClient(context: SlackContext, load: Load = () => import("@slack/web-api")) {
  return async (signal: AbortSignal): Promise<WebApi.WebClient> => {
    const { WebClient } = await loadPackage("@slack/web-api", load, advice("@slack/web-api"));
    return new WebClient(context.config.botToken, clientOptions(context, signal));
  };
}

const STYLES: Partial<Record<Verdict, string>> = { approve: "primary", deny: "danger" };

const textBlock = (text: string): object => ({ type: "section", text: { type: "mrkdwn", text } });

/** A question in blocks: its text, the buttons, and how to decide without them. */
function buildBlocks({ code, text, instruction, verdicts }: ApprovalQuestion): object[] {
  const elements = verdicts.map(({ verdict, label }) => ({
    type: "button",
    text: { type: "plain_text", text: label },
    action_id: `rouse_${verdict}`,
    value: renderVerdict(verdict, code),
    ...(STYLES[verdict] !== undefined && { style: STYLES[verdict] }),
  }));
  const context = { type: "context", elements: [{ type: "mrkdwn", text: toMrkdwn(instruction) }] };
  return [textBlock(toMrkdwn(text)), { type: "actions", elements }, context];
}

/** Posts a markdown text by `post`, in mrkdwn if the server does not take markdown. */
async function postText(text: string, post: (content: object) => Promise<SendResult>): Promise<SendResult> {
  const inText = (): Promise<SendResult> => {
    const mrkdwn = toMrkdwn(text);
    if (mrkdwn.length > MAX_TEXT) throw new ChannelError({ status: "failed", reason: "the text is too long for slack" });
    return post({ text: mrkdwn });
  };
  const markdown = toMarkdown(text);
  if (markdown.length > MAX_MARKDOWN) return inText();
  return post({ markdown_text: markdown }).catch((error: SdkError) => {
    if (!NO_MARKDOWN.has(error.data?.error ?? "")) throw error;
    return inText();
  });
}

/** Replaces a question's blocks by its text. */
async function endQuestion(client: WebApi.WebClient, { messageIds: [id = ""], text }: EndedQuestion): Promise<void> {
  const [channel = "", ts = ""] = id.split(":");
  const mrkdwn = toMrkdwn(text);
  await client.apiCall("chat.update", { channel, ts, text: mrkdwn, blocks: [textBlock(mrkdwn.slice(0, MAX_BLOCK))] });
}

/** Sends by the Web API. `hasButtons`: presses reach the gateway. `load` loads the vendor's client; a test may bring another. */
export function createChannel(context: SlackContext, load?: Load, hasButtons = false): Channel {
  const connect = createClient(context, load);
  const conversation = conversations(async (users, signal) => {
    const { channel } = await (await connect(signal)).conversations.open({ users });
    return channel?.id ?? "";
  });
  type Piece = Pick<OutgoingMessage, "thread" | "idempotencyKey">;
  const call = async ({ thread, idempotencyKey }: Piece, channel: string, signal: AbortSignal, content: object) => {
    const metadata = { event_type: EVENT_TYPE, event_payload: { key: idempotencyKey } };
    // Previews would have the vendor fetch an address that the model chose.
    const about = { channel, metadata, unfurl_links: false, unfurl_media: false, ...(thread !== undefined && { thread_ts: thread }) };
    const client = await connect(signal);
    const answer = (await client.apiCall("chat.postMessage", { ...about, ...content })) as WebApi.ChatPostMessageResponse;
    return sentResult(answer.ts && messageId(answer.channel ?? channel, answer.ts));
  };
  const reconciled = {
    ...PATIENCE,
    again: true,
    now: () => context.clock.now(),
    /** Where the vendor can tell, and the app may read there: known by its metadata. */
    async find({ thread, idempotencyKey }: Piece, channel: string, since: number, signal: AbortSignal) {
      const page = { channel, oldest: String((since - SKEW_MS) / 1000), limit: 100, include_all_metadata: true };
      const api = (await connect(signal)).conversations;
      const { messages = [] } = await (thread === undefined ? api.history(page) : api.replies({ ...page, ts: thread }));
      const posted = messages as { ts?: string; metadata?: { event_payload?: Record<string, unknown> } }[];
      const ts = posted.find(({ metadata }) => metadata?.event_payload?.["key"] === idempotencyKey)?.ts;
      return ts === undefined ? undefined : sentResult(messageId(channel, ts));
    },
  };
  const post = sendOrReconcile<string>(VENDOR, {
    ...reconciled,
    post: (message, channel, signal) => postText(message.text, (content) => call(message, channel, signal, content)),
  });
  const ask = sendOrReconcile<string, ApprovalQuestion>(VENDOR, {
    ...reconciled,
    // `text` is for notifications.
    post: (question, channel, signal) => call(question, channel, signal, { text: toMrkdwn(question.text), blocks: buildBlocks(question) }),
  });
  return vendorChannel({
    vendor: VENDOR,
    find: ({ to }, signal) => conversation(to, signal),
    post,
    ...(hasButtons && {
      postQuestion: (question: ApprovalQuestion, channel: string, signal: AbortSignal) =>
        toMrkdwn(question.text).length > MAX_BLOCK
          ? post({ ...question, text: `${question.text}\n\n${question.instruction}` }, channel, signal)
          : ask(question, channel, signal),
      change: async (ended: EndedQuestion, _: string, signal: AbortSignal) => endQuestion(await connect(signal), ended),
    }),
    check: async (signal) => (await connect(signal)).auth.test(),
  });
}
