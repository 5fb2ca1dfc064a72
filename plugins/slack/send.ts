import type * as WebApi from "@slack/web-api";
import {
  ChannelError,
  conversations,
  cutText,
  loadPackage,
  renderVerdict,
  sameRule,
  sendOrReconcile,
  sentResult,
  vendorChannel,
} from "#channel-kit";
import type { ErrorRules } from "#channel-kit";
import type {
  ApprovalQuestion,
  Channel,
  EndedQuestion,
  OutgoingMessage,
  PluginContext,
  SendResult,
  SentMessage,
  TypingPlace,
  Verdict,
} from "#plugin";
import { toMarkdown, toMrkdwn } from "./format.ts";
import { sendFile } from "./send-file.ts";

/** The longest `markdown_text`. */
export const MAX_MARKDOWN = 12_000;
/** The longest `text` that the vendor takes without cutting it. */
const MAX_TEXT = 40_000;
/** The longest text of a block. */
const MAX_BLOCK = 3_000;
/** Answers of a server that does not know `markdown_text`. */
const NO_MARKDOWN = new Set(["no_text", "invalid_arguments", "markdown_text_conflict"]);
/** The metadata by which a post is found later: the vendor keeps it with each message. */
const EVENT_TYPE = "rouse_reply";
/** Leaves time to find out what became of a post within the time that the gateway gives a send. */
const PATIENCE = { postMs: 15_000, looks: 3, pauseMs: 500, settleMs: 10_000 };
/** Slack takes a status away with the next message, or after 2 minutes. */
const TYPING_MS = 60_000;
/** The reaction to a message while the agent works, and the answers if it is already there, or not any more. */
const REACTION = "eyes";
const DONE = new Set(["already_reacted", "no_reaction", "message_not_found"]);
/** Slack takes 50 edits a minute of an app in a workspace. */
const EDIT_MS = 3_000;
/** By how much the clocks of the vendor and of this machine may differ. */
const SKEW_MS = 60_000;
/** The most pages of messages that are read, and the messages of a page. */
const MAX_PAGES = 5;
const PAGE = 200;

/** The context that the parts of the plugin share. */
export type SlackContext = Pick<
  PluginContext<{ botToken: string; apiUrl: string }>,
  "config" | "fetch" | "clock"
>;

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
    ...sameRule(
      [
        "ratelimited",
        "rate_limited",
        "service_unavailable",
        "request_timeout",
        "team_added_to_org",
      ],
      { status: "retry" },
    ),
    // Of these the vendor says that some of the work may have been done.
    ...sameRule(["fatal_error", "internal_error"], { status: "unknown" }),
  },
  sort(error) {
    const { code: kind, data, statusCode: status, retryAfter = 0, message } = error as SdkError;
    if (kind === "slack_webapi_platform_error")
      return { code: data?.error, afterMs: (data?.response_metadata?.retryAfter ?? 1) * 1000 };
    if (kind === "slack_webapi_http_error") return { status };
    // The client has a plain error for a 429 that names no wait.
    const limited =
      kind === "slack_webapi_rate_limited_error" ||
      message?.startsWith("Retry header did not contain");
    return limited ? { status: 429, afterMs: retryAfter * 1000 } : undefined;
  },
};

/** Reads messages page by page. `isLast`: the vendor has no more; without it they are too many to read all. */
export async function* readPages<T>(
  read: (page: {
    limit: number;
    cursor?: string;
  }) => Promise<{ messages?: T[]; response_metadata?: { next_cursor?: string } }>,
) {
  for (let page = 0, cursor: string | undefined; page < MAX_PAGES; page++) {
    const answer = await read({ limit: PAGE, ...(cursor && { cursor }) });
    cursor = answer.response_metadata?.next_cursor;
    yield { messages: answer.messages ?? [], isLast: !cursor };
    if (!cursor) return;
  }
}

/** Reads the key that a message was posted with; undefined if the gateway did not post it. */
export function readMessageKey({
  metadata,
}: Pick<WebApi.ChatPostMessageArguments, "metadata">): string | undefined {
  const key = metadata?.event_type === EVENT_TYPE ? metadata.event_payload?.["key"] : undefined;
  return typeof key === "string" ? key : undefined;
}

const nothing = (): void => undefined;
const kept = {
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  setLevel: nothing,
  setName: nothing,
};
/** The vendor's client logs requests, and with them texts: nothing of it is kept. */
export const silent: WebApi.Logger = { ...kept, getLevel: () => "error" as WebApi.LogLevel };

/** Options of a client that asks once and obeys `signal`: the outbox waits, not the client. */
export function clientOptions(
  { config, fetch }: SlackContext,
  signal: AbortSignal,
): WebApi.WebClientOptions {
  return {
    slackApiUrl: config.apiUrl,
    fetch: (url, init) => fetch(url, { ...init, signal }),
    retryConfig: { retries: 0 },
    rejectRateLimitedCalls: true,
    logger: silent,
  };
}

/** The advice if a package of the vendor's is missing. */
export const advice = (name: string): string => `install ${name}: the channel needs it`;

/** The id of a message: the vendor's own is unique in its conversation alone. */
export const messageId = (channel: string, ts: string): string => `${channel}:${ts}`;

/** Creates the vendor's clients: one per call, since a client has no signal of a call's own. A test may bring another client. */
export function createClient(context: SlackContext) {
  return async (signal: AbortSignal): Promise<WebApi.WebClient> => {
    const { WebClient } = await loadPackage(
      "@slack/web-api",
      () => import("@slack/web-api"),
      advice("@slack/web-api"),
    );
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
async function postText(
  text: string,
  post: (content: object) => Promise<SendResult>,
): Promise<SendResult> {
  const inText = (): Promise<SendResult> => {
    const mrkdwn = toMrkdwn(text);
    if (mrkdwn.length > MAX_TEXT)
      throw new ChannelError({ status: "failed", reason: "the text is too long for slack" });
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
async function endQuestion(
  client: WebApi.WebClient,
  { messageIds: [id = ""], text }: EndedQuestion,
): Promise<void> {
  const mrkdwn = toMrkdwn(text);
  await client.apiCall("chat.update", {
    ...fromMessageId(id),
    text: mrkdwn,
    blocks: [textBlock(cutText(mrkdwn, MAX_BLOCK).text)],
  });
}

/** Splits the id of a message into the names that the API uses. */
function fromMessageId(id: string): { channel: string; ts: string } {
  const [channel = "", ts = ""] = id.split(":");
  return { channel, ts };
}

/** Gives a message the reaction, or takes it away. What was done before is no error. */
async function react(
  client: WebApi.WebClient,
  id: string,
  act: "add" | "remove",
): Promise<unknown> {
  const { channel, ts } = fromMessageId(id);
  // The id of an edit has the time of the edit behind that of the message.
  const [timestamp = ""] = ts.split(" ");
  return client.reactions[act]({ channel, timestamp, name: REACTION }).catch((error: SdkError) => {
    if (!DONE.has(error.data?.error ?? "")) throw error;
  });
}

/** Shows a status of the app in a thread. Elsewhere there is none, and the message gets a reaction. */
function createTyping(connect: ReturnType<typeof createClient>) {
  const set =
    (status: string) =>
    async (
      { thread, replyTo }: TypingPlace,
      channel: string,
      signal: AbortSignal,
    ): Promise<unknown> => {
      const client = await connect(signal);
      if (thread !== undefined)
        return client.assistant.threads.setStatus({
          channel_id: channel,
          thread_ts: thread,
          status,
        });
      return replyTo === undefined
        ? undefined
        : react(client, replyTo, status === "" ? "remove" : "add");
    };
  // A status that comes to Slack behind the answer would stay for 2 minutes.
  return { everyMs: TYPING_MS, show: set("is thinking…"), hide: set("") };
}

function createEdits(connect: ReturnType<typeof createClient>) {
  return {
    everyMs: EDIT_MS,
    async edit(
      { messageId: id, text }: SentMessage & { text: string },
      _: string,
      signal: AbortSignal,
    ): Promise<unknown> {
      const client = await connect(signal);
      return postText(text, async (content) => {
        await client.apiCall("chat.update", { ...fromMessageId(id), ...content });
        return sentResult(id);
      });
    },
    remove: async ({ messageId }: SentMessage, _: string, signal: AbortSignal): Promise<unknown> =>
      (await connect(signal)).chat.delete(fromMessageId(messageId)).catch((error: SdkError) => {
        if (error.data?.error !== "message_not_found") throw error;
      }),
  };
}

type Piece = Pick<OutgoingMessage, "thread" | "idempotencyKey">;

/** Finds a message of an earlier try where the vendor can tell, and the app may read there: known by its metadata. */
const createFind =
  (connect: ReturnType<typeof createClient>) =>
  async (
    { thread, idempotencyKey }: Piece,
    channel: string,
    since: number,
    signal: AbortSignal,
  ) => {
    const about = { channel, oldest: String((since - SKEW_MS) / 1000), include_all_metadata: true };
    const api = (await connect(signal)).conversations;
    const read = readPages<Pick<WebApi.ChatPostMessageArguments, "metadata"> & { ts?: string }>(
      (page) =>
        thread === undefined
          ? api.history({ ...about, ...page })
          : api.replies({ ...about, ...page, ts: thread }),
    );
    for await (const { messages, isLast } of read) {
      const ts = messages.find((message) => readMessageKey(message) === idempotencyKey)?.ts;
      if (ts !== undefined) return sentResult(messageId(channel, ts));
      if (isLast) return undefined;
    }
    throw new ChannelError({
      status: "failed",
      reason: "too many messages were written on slack since an earlier try",
    });
  };

/** Sends by the Web API. `hasButtons`: presses reach the gateway. `load` loads the vendor's client; a test may bring another. */
export function createChannel(context: SlackContext, hasButtons = false): Channel {
  const connect = createClient(context);
  const conversation = conversations(async (users, signal) => {
    const { channel } = await (await connect(signal)).conversations.open({ users });
    return channel?.id ?? "";
  });
  const call = async (
    { thread, idempotencyKey }: Piece,
    channel: string,
    signal: AbortSignal,
    content: object,
  ) => {
    const metadata = { event_type: EVENT_TYPE, event_payload: { key: idempotencyKey } };
    // Previews would have the vendor fetch an address that the model chose.
    const about = {
      channel,
      metadata,
      unfurl_links: false,
      unfurl_media: false,
      ...(thread !== undefined && { thread_ts: thread }),
    };
    const client = await connect(signal);
    const answer = (await client.apiCall("chat.postMessage", {
      ...about,
      ...content,
    })) as WebApi.ChatPostMessageResponse;
    return sentResult(answer.ts && messageId(answer.channel ?? channel, answer.ts));
  };
  const reconciled = {
    ...PATIENCE,
    again: true,
    now: () => context.clock.now(),
    find: createFind(connect),
  };
  const post = sendOrReconcile<string>(VENDOR, {
    ...reconciled,
    post: (message, channel, signal) =>
      postText(message.text, (content) => call(message, channel, signal, content)),
  });
  const ask = sendOrReconcile<string, ApprovalQuestion>(VENDOR, {
    ...reconciled,
    // `text` is for notifications.
    post: (question, channel, signal) =>
      call(question, channel, signal, {
        text: toMrkdwn(question.text),
        blocks: buildBlocks(question),
      }),
  });
  return vendorChannel({
    vendor: VENDOR,
    find: ({ to }, signal) => conversation(to, signal),
    post,
    repost: (message, channel, since, signal) => post(message, channel, signal, since),
    postFile: (file, channel, signal) =>
      sendFile(VENDOR, connect, context, { file, channel, signal }),
    ...(hasButtons && {
      postQuestion: async (question: ApprovalQuestion, channel: string, signal: AbortSignal) =>
        toMrkdwn(question.text).length > MAX_BLOCK ? undefined : ask(question, channel, signal),
      change: async (ended: EndedQuestion, _: string, signal: AbortSignal) =>
        endQuestion(await connect(signal), ended),
    }),
    typing: createTyping(connect),
    streaming: createEdits(connect),
    check: async (signal) => (await connect(signal)).auth.test(),
  });
}
