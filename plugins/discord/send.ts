import { createHash } from "node:crypto";
import type { RawFile, REST } from "@discordjs/rest";
import {
  conversations,
  loadPackage,
  networkCode,
  neverConnected,
  once,
  renderVerdict,
  retryIdempotent,
  sendAfter,
  sentResult,
  untold,
  vendorChannel,
  type ErrorRules,
  type VendorChannel,
} from "#channel-kit";
import type {
  ApprovalQuestion,
  Channel,
  OutgoingMessage,
  PluginContext,
  SendResult,
  Verdict,
  OutgoingFile,
} from "#plugin";
import { toDiscord } from "./format.ts";

/** The largest file that a bot may send without a paid server, in bytes. */
const MAX_FILE = 10_000_000;
const TOO_LARGE = {
  status: "unsupported",
  reason: "Discord takes files of 10 MB at most",
} as const;

/** A file as the SDK takes it: it becomes a part of the message's form. */
const toRawFile = ({ name, mediaType, data }: OutgoingFile): RawFile => ({
  name,
  data,
  contentType: mediaType,
});

/** Two tries with it fit into the time that the gateway gives a send. */
const TIMEOUT_MS = 12_000;

export const VENDOR: ErrorRules = {
  name: "discord",
  defaultWaitMs: 5_000,
  errors: { 401: { status: "failed", reason: "discord does not know the bot token (401)" } },
  sort(error) {
    const { status, code, name, retryAfter } = error as Record<string, unknown>;
    if (typeof retryAfter === "number") return { status: 429, afterMs: Math.ceil(retryAfter) };
    if (typeof status === "number") return { status, code: CODES[String(code)] };
    // The SDK's error if the sessions of a day are used up.
    if (error instanceof Error && error.message.startsWith("Not enough sessions "))
      return { status: "retry", reason: error.message };
    const why =
      networkCode(error) ??
      (name === "AbortError" ? "no answer in time" : "the connection was cut");
    return neverConnected(why)
      ? undefined
      : { status: "unknown", reason: `discord gave no answer (${why})` };
  },
};

/** The meanings of Discord's error codes. */
const CODES: Record<string, string> = {
  10003: "unknown channel",
  10008: "unknown message",
  10013: "unknown user",
  50001: "the bot has no access to the channel",
  50006: "empty message",
  50007: "the user takes no messages from the bot",
  50008: "not a text channel",
  50013: "the bot may not write there",
  50035: "not a valid message",
  50083: "the thread is archived",
  50278: "the user shares no server with the bot",
  160005: "the thread is locked",
  200000: "blocked by the server's AutoMod",
};

type ClientContext = Pick<PluginContext<{ token: string; apiUrl: string }>, "config" | "fetch">;

/** The client of the HTTP API, made when first needed. It repeats nothing by itself: the outbox does, and forgets nothing. */
export function createClient({ config, fetch }: ClientContext): () => Promise<REST> {
  const client = once(async () => {
    const sdk = await loadPackage("@discordjs/rest", () => import("@discordjs/rest"));
    return new sdk.REST({
      api: config.apiUrl,
      version: "10",
      retries: 0,
      rejectOnRateLimit: () => true,
      timeout: TIMEOUT_MS,
      // The SDK's own `fetch` is another copy of the platform's, with the same shape.
      makeRequest: fetch as unknown as REST["options"]["makeRequest"],
    });
  });
  // The SDK forgets the token at the first 401, also where that was a passing fault.
  return async () => (await client()).setToken(config.token);
}

/** Longest text of a message. Discord counts characters, of which there are never more than UTF-16 units. */
export const LIMIT = 2000;
/** `SUPPRESS_EMBEDS`: a preview would make Discord fetch what a text names. */
const NO_PREVIEWS = 4;
const NONCE_LENGTH = 25;
/** A reply needs the permission to read what came before. */
const NO_HISTORY = 160002;
const UNKNOWN_MESSAGE = 10008;
/** Discord compares nonces "in the past few minutes": within this time a repeat surely posts nothing twice. */
const NONCE_MS = 60_000;
/** Before a try that asks what became of the one before. */
const PAUSE_MS = 500;

/** Discord shows that a bot is typing for 10 seconds. */
const TYPING_MS = 8_000;
/** A channel takes about 5 edits in 5 seconds, the answers to other people among them. */
const EDIT_MS = 2_000;

/** Builds the text of a message, new or changed. */
function buildContent(text: string) {
  const dialect = toDiscord(text);
  return {
    // The agent's markdown is nearly Discord's: it stands in where marks that were escaped made the text too long.
    content: dialect.length <= LIMIT ? dialect : text,
    flags: NO_PREVIEWS,
    // A reply calls nobody: what it says may come from outside.
    allowed_mentions: { parse: [] },
  };
}

/** Green, red and grey. */
const STYLES: Partial<Record<Verdict, number>> = { approve: 3, deny: 4 };

/** A row of buttons. */
function buildButtons({ code, verdicts }: ApprovalQuestion): object {
  const button = ({ verdict, label }: ApprovalQuestion["verdicts"][number]) => ({
    type: 2,
    style: STYLES[verdict] ?? 2,
    label,
    custom_id: renderVerdict(verdict, code),
  });
  return { components: [{ type: 1, components: verdicts.map(button) }] };
}

/** Builds the body of a post. Its nonce makes Discord answer a repeat with the message that is there already. */
function buildBody({
  text,
  idempotencyKey,
}: Pick<OutgoingMessage, "text" | "idempotencyKey">): object {
  return {
    ...buildContent(text),
    nonce: createHash("sha256").update(idempotencyKey).digest("base64url").slice(0, NONCE_LENGTH),
    enforce_nonce: true,
  };
}

/** Creates the typing sign and the text that is shown while the agent works. */
function createLive(
  client: () => Promise<REST>,
): Pick<VendorChannel<string>, "streaming" | "typing"> {
  return {
    streaming: {
      everyMs: EDIT_MS,
      edit: async ({ messageId, text }, channel, signal) =>
        (await client()).patch(`/channels/${channel}/messages/${messageId}`, {
          body: buildContent(text),
          signal,
        }),
      remove: async ({ messageId }, channel, signal) =>
        (await client())
          .delete(`/channels/${channel}/messages/${messageId}`, { signal })
          .catch((error: { code?: unknown }) => {
            if (error.code !== UNKNOWN_MESSAGE) throw error;
          }),
    },
    typing: {
      everyMs: TYPING_MS,
      show: async (_, channel, signal) =>
        (await client()).post(`/channels/${channel}/typing`, { signal }),
    },
  };
}

/** Sends by the HTTP API. */
export function createChannel(client: () => Promise<REST>, now: () => number): Channel {
  const postForId = async (
    path: `/${string}`,
    body: object,
    signal: AbortSignal,
    files: RawFile[] = [],
  ): Promise<string> =>
    (
      (await (await client()).post(path, { body, signal, ...(files.length > 0 && { files }) })) as {
        id: string;
      }
    ).id;
  const conversation = conversations((user, signal) =>
    postForId("/users/@me/channels", { recipient_id: user }, signal),
  );
  type Piece = Pick<OutgoingMessage, "text" | "replyTo" | "idempotencyKey">;
  const send = async (
    message: Piece,
    channel: string,
    signal: AbortSignal,
    buttons: object = {},
    files: RawFile[] = [],
  ): Promise<SendResult> => {
    const { replyTo } = message;
    const reply =
      replyTo === undefined
        ? {}
        : { message_reference: { message_id: replyTo, fail_if_not_exists: false } };
    const post = async (more: object): Promise<SendResult> =>
      sentResult(
        await postForId(
          `/channels/${channel}/messages`,
          { ...buildBody(message), ...buttons, ...more },
          signal,
          files,
        ),
      );
    const attempt = (): Promise<SendResult> =>
      post(reply).catch((error: { code?: unknown }) => {
        // An answer that points to nothing is better than none.
        if (error.code === NO_HISTORY) return post({});
        throw error;
      });
    // Discord tells by its answer to the same nonce what has become of the first try.
    return retryIdempotent(VENDOR, signal, { tries: Infinity, pauseMs: PAUSE_MS }, attempt);
  };
  /** Returns whether presses go to an address of the application's, and not to the gateway connection. */
  const pressesGoElsewhere = async (signal: AbortSignal): Promise<boolean> => {
    const about = (await (await client()).get("/applications/@me", { signal })) as {
      interactions_endpoint_url?: string | null;
    };
    return (
      typeof about.interactions_endpoint_url === "string" && about.interactions_endpoint_url !== ""
    );
  };
  return vendorChannel({
    vendor: VENDOR,
    check: async (signal) => (await client()).get("/users/@me", { signal }),
    // A thread is a channel.
    find: ({ to, thread }, signal) => conversation(thread ?? to, signal),
    post: send,
    repost: async (message, channel, since, signal) =>
      now() - since > NONCE_MS ? untold(VENDOR) : send(message, channel, signal),
    postFile: async (file, channel, signal) =>
      file.data.length > MAX_FILE
        ? TOO_LARGE
        : send({ ...file, text: "" }, channel, signal, {}, [toRawFile(file)]),
    postQuestion: (question, channel, signal) =>
      sendAfter(
        VENDOR,
        () => pressesGoElsewhere(signal),
        async (elsewhere) =>
          elsewhere ? undefined : send(question, channel, signal, buildButtons(question)),
      ),
    ...createLive(client),
    change: async ({ messageIds: [id], text }, channel, signal) =>
      (await client()).patch(`/channels/${channel}/messages/${id}`, {
        body: { ...buildContent(text), components: [] },
        signal,
      }),
  });
}
