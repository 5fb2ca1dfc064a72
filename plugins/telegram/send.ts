import type { Api } from "grammy";
import { htmlText, loadPackage, renderVerdict, sentResult, vendorChannel } from "#channel-kit";
import type { ErrorRules, VendorChannel } from "#channel-kit";
import type {
  Channel,
  EndedQuestion,
  FileSendResult,
  OutgoingFile,
  OutgoingMessage,
  PluginContext,
  SendResult,
} from "#plugin";
import { toHtml, toPlainText } from "./format.ts";

const DEFAULT_WAIT_MS = 5_000;
/** Telegram shows that a bot is typing for 5 seconds. */
const TYPING_MS = 4_000;
/** A group takes 20 messages and edits a minute. */
const EDIT_MS = 3_000;
const NO_TOKEN = (status: number) =>
  ({ status: "failed", reason: `telegram does not know the bot token (${status})` }) as const;
/** The parts of Telegram's refusals that name neither text nor person. */
const KNOWN = new RegExp(
  [
    "chat not found|message is too long|message text is empty|message thread not found|TOPIC_CLOSED|bot was blocked by the user",
    "user is deactivated|bot was kicked|bot is not a member|group chat was deleted|bot can't initiate conversation with a user|bots can't send messages to bots",
    "message to edit not found|message can't be edited|need administrator rights|not enough rights|have no rights to send|CHAT_WRITE_FORBIDDEN|terminated by other getUpdates request|webhook is active",
  ].join("|"),
  "i",
);

/** Returns Telegram's refusal, if `error` is one. */
export function getRefusal(error: unknown) {
  type Refusal = {
    error_code: number;
    description: string;
    parameters: { retry_after?: number; migrate_to_chat_id?: number };
  };
  return typeof error === "object" && error !== null && "error_code" in error
    ? (error as Refusal)
    : undefined;
}

/** It knows no idempotency keys: what was cut off may have arrived. */
export const VENDOR: ErrorRules = {
  name: "telegram",
  defaultWaitMs: DEFAULT_WAIT_MS,
  errors: { 401: NO_TOKEN(401), 404: NO_TOKEN(404) },
  sort(error) {
    const refusal = getRefusal(error);
    if (!refusal) return undefined;
    const { error_code: status, description, parameters } = refusal;
    return {
      status,
      code: KNOWN.exec(description)?.[0],
      afterMs: (parameters.retry_after ?? 0) * 1000,
    };
  },
};

/** Fetches in Telegram's form: proxies answer in HTML, of which the status is kept. */
export const fetchJson =
  (fetch: typeof globalThis.fetch) =>
  async (url: string, init: RequestInit): Promise<Response> => {
    const response = await fetch(url, init);
    if (response.headers.get("content-type")?.includes("json")) return response;
    await response.body?.cancel();
    const { status: error_code, statusText: description } = response;
    return Response.json({ ok: false, error_code, description });
  };

export type BotContext = PluginContext<{ token: string; apiUrl: string }>;

/** Clients of the Bot API, each for what ends with a signal: the SDK in its build for the web; tests put another in its place. */
export function createClient({ config, fetch }: Pick<BotContext, "config" | "fetch">) {
  return async (signal: AbortSignal): Promise<Api> => {
    const sdk = await loadPackage("grammy", () => import("grammy/web"));
    // The types of the SDK are those of its build for Node, with another `fetch` and another signal.
    return new sdk.Api(config.token, {
      apiRoot: config.apiUrl,
      fetch: (url: string, init: RequestInit) => fetchJson(fetch)(url, { ...init, signal }),
    } as unknown as ConstructorParameters<typeof Api>[1]);
  };
}

type Piece = Pick<OutgoingMessage, "to" | "thread" | "replyTo" | "text">;

/** A text in both forms: Telegram refuses HTML that it cannot read. */
function toForms(markdown: string) {
  const html = toHtml(markdown);
  const blank = htmlText(html).trim() === "";
  const plain = { text: blank ? markdown : toPlainText(markdown) };
  return { plain, first: blank ? plain : { text: html, parse_mode: "HTML" as const } };
}

/** Returns whether Telegram could not read a text's HTML. */
function isUnread(error: unknown): boolean {
  const refusal = getRefusal(error);
  return refusal?.error_code === 400 && /can't parse entities/i.test(refusal.description);
}

/** Replaces a message's text and takes its buttons away. A message that says so already is left alone. */
async function editMessage(
  api: Api["raw"],
  { to, messageIds, text }: EndedQuestion,
): Promise<void> {
  const { plain, first } = toForms(text);
  const about = {
    chat_id: toPlace({ to }).chat,
    message_id: Number(messageIds[0]),
    link_preview_options: { is_disabled: true },
  };
  try {
    // Without `reply_markup` the buttons go.
    await api.editMessageText({ ...about, ...first }).catch((error: unknown) => {
      if (!isUnread(error)) throw error;
      return api.editMessageText({ ...about, ...plain });
    });
  } catch (error) {
    if (!/message is not modified/i.test(getRefusal(error)?.description ?? "")) throw error;
  }
}

/** Sends to a chat, and once more to the group that it has become. */
export async function sendToChat<T>(
  chat: string,
  log: Pick<PluginContext<unknown>["log"], "warn">,
  send: (chat: string) => Promise<T>,
): Promise<T> {
  return send(chat).catch((error: unknown) => {
    const next = getRefusal(error)?.parameters.migrate_to_chat_id;
    if (next === undefined) throw error;
    log.warn(`the telegram group ${chat} is now ${next}: change the recipient`);
    return send(String(next));
  });
}

/** Reads the chat of a recipient, and the topic and the message that are answered. The general topic is 1 and may not be named. */
export function toPlace({
  to,
  thread,
  replyTo,
}: Pick<OutgoingMessage, "to" | "thread" | "replyTo">) {
  const [chat = "", topic] = to.split(":");
  const topicId = Number(thread ?? topic ?? 0);
  const reply = Number(replyTo?.split(":").at(-1) ?? Number.NaN);
  return {
    chat,
    topic: topicId > 1 ? { message_thread_id: topicId } : {},
    reply: Number.isSafeInteger(reply)
      ? { reply_parameters: { message_id: reply, allow_sending_without_reply: true } }
      : {},
  };
}

/** Creates the typing sign and the text that is shown while the agent works. */
function createLive(
  client: ReturnType<typeof createClient>,
): Pick<VendorChannel<unknown>, "streaming" | "typing"> {
  return {
    streaming: {
      everyMs: EDIT_MS,
      edit: async ({ messageId, ...message }, _, signal) =>
        editMessage((await client(signal)).raw, { ...message, messageIds: [messageId] }),
      async remove({ to, messageId }, _, signal) {
        const { raw } = await client(signal);
        await raw
          .deleteMessage({ chat_id: toPlace({ to }).chat, message_id: Number(messageId) })
          .catch((error: unknown) => {
            if (!/message to delete not found/i.test(getRefusal(error)?.description ?? ""))
              throw error;
          });
      },
    },
    typing: {
      everyMs: TYPING_MS,
      async show(about, _, signal) {
        const { chat, topic } = toPlace(about);
        const { raw } = await client(signal);
        return raw.sendChatAction({ chat_id: chat, action: "typing", ...topic });
      },
    },
  };
}

/** Sends by the Bot API. `hasButtons`: whether presses reach the gateway. */
export function createChannel(
  client: ReturnType<typeof createClient>,
  log: Pick<PluginContext<unknown>["log"], "warn">,
  hasButtons: (signal: AbortSignal) => Promise<boolean> = async () => true,
  postFile?: (file: OutgoingFile, signal: AbortSignal) => Promise<FileSendResult>,
): Channel {
  const post = async (
    message: Piece,
    signal: AbortSignal,
    more: object = {},
  ): Promise<SendResult> => {
    const { chat, topic, reply } = toPlace(message);
    // A preview would make Telegram fetch what a text names.
    const options = { ...topic, link_preview_options: { is_disabled: true }, ...reply, ...more };
    const { plain, first } = toForms(message.text);
    const { raw } = await client(signal);
    const sent = await sendToChat(chat, log, (where) =>
      raw.sendMessage({ chat_id: where, ...first, ...options }).catch((error: unknown) => {
        if (!isUnread(error)) throw error;
        return raw.sendMessage({ chat_id: where, ...plain, ...options });
      }),
    );
    return sentResult(String(sent.message_id));
  };
  return vendorChannel({
    vendor: VENDOR,
    check: async (signal) => (await client(signal)).getMe(),
    post: (message, _, signal) => post(message, signal),
    ...(postFile && {
      postFile: (file: OutgoingFile, _: unknown, signal: AbortSignal) => postFile(file, signal),
    }),
    async postQuestion({ code, verdicts, ...question }, _, signal) {
      if (!(await hasButtons(signal))) return undefined;
      const row = verdicts.map(({ verdict, label }) => ({
        text: label,
        callback_data: renderVerdict(verdict, code),
      }));
      return post(question, signal, { reply_markup: { inline_keyboard: [row] } });
    },
    change: async (ended, _, signal) => editMessage((await client(signal)).raw, ended),
    ...createLive(client),
  });
}
