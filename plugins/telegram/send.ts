import type { Api } from "grammy";
import { neverConnected, type Channel, type OutgoingMessage, type PluginContext, type SendResult } from "#plugin";
import type { Config } from "./index.ts";
import { toHtml, toPlainText, visibleText } from "./format.ts";

/** Longest text, in UTF-16 units after the entities are parsed. */
export const LIMIT = 4096;
const DEFAULT_WAIT_MS = 5_000;
/** What Telegram says of a refusal, as far as it names neither text nor person. */
const KNOWN = [
  "chat not found",
  "message is too long",
  "message text is empty",
  "message thread not found",
  "TOPIC_CLOSED",
  "bot was blocked by the user",
  "user is deactivated",
  "bot was kicked",
  "bot is not a member",
  "bot can't initiate conversation with a user",
  "bots can't send messages to bots",
  "not enough rights",
  "have no rights to send",
  "CHAT_WRITE_FORBIDDEN",
  "terminated by other getUpdates request",
  "webhook is active",
];

/** Thrown where the SDK is not installed, or broken. */
export class MissingPackage extends Error {
  override name = "MissingPackage";
}

/** The SDK; tests put another in its place. */
export type Load = () => Promise<{ Api: typeof Api }>;
/** The build for the web uses the platform's `fetch`. */
const loadSdk: Load = () => import("grammy/web");

/** The client of the Bot API, made when first needed. */
export function createClient({ config, fetch }: Pick<PluginContext<Config>, "config" | "fetch">, load: Load = loadSdk): () => Promise<Api> {
  // Proxies answer in HTML; what they say is put into Telegram's form, so that the status is not lost.
  const inJson = async (url: string, init: RequestInit): Promise<Response> => {
    const response = await fetch(url, init);
    if (response.headers.get("content-type")?.includes("json")) return response;
    await response.body?.cancel();
    return Response.json({ ok: false, error_code: response.status, description: response.statusText });
  };
  let client: Promise<Api> | undefined;
  const make = async (): Promise<Api> => {
    const sdk = await load().catch((error: unknown) => {
      const missing = (error as { code?: unknown }).code === "ERR_MODULE_NOT_FOUND";
      throw new MissingPackage(missing ? "install grammy (npm install grammy)" : "grammy could not be loaded", { cause: error });
    });
    const options = { apiRoot: config.apiUrl.replace(/\/+$/, ""), fetch: inJson };
    // The types of the SDK are those of its build for Node, with another `fetch`.
    return new sdk.Api(config.token, options as unknown as ConstructorParameters<typeof Api>[1]);
  };
  return () => {
    client ??= make().catch((error: unknown) => {
      client = undefined;
      throw error;
    });
    return client;
  };
}

/** The SDK's signal has the same shape as the platform's, and another name. */
export function asSdkSignal(signal: AbortSignal): NonNullable<Parameters<Api["getMe"]>[0]> {
  return signal as unknown as NonNullable<Parameters<Api["getMe"]>[0]>;
}

/** An answer of Telegram that is an error. */
interface Refusal {
  error_code: number;
  description: string;
  parameters: { retry_after?: number; migrate_to_chat_id?: number };
}

/** What Telegram answered, where `error` is that. */
export function refusalOf(error: unknown): Refusal | undefined {
  return typeof error === "object" && error !== null && "error_code" in error ? (error as Refusal) : undefined;
}

/** An error as a line for the operator: no text, no token, no address. */
export function describeError(error: unknown): string {
  if (error instanceof MissingPackage) return error.message;
  const refusal = refusalOf(error);
  if (!refusal) {
    const code = codeOf(error);
    const outcome = neverConnected(code ?? "") ? "could not be reached" : "gave no answer";
    return `telegram ${outcome}${code === undefined ? "" : ` (${code})`}`;
  }
  const { error_code: status, description } = refusal;
  if (status === 401 || status === 404) return `telegram does not know the bot token (${status})`;
  const known = KNOWN.find((phrase) => description.toLowerCase().includes(phrase.toLowerCase()));
  return `telegram answered ${status}${known === undefined ? "" : ` (${known})`}`;
}

function codeOf(error: unknown): string | undefined {
  const cause = (error as { error?: { cause?: { code?: unknown }; code?: unknown } }).error;
  const code = cause?.cause?.code ?? cause?.code;
  return typeof code === "string" ? code : undefined;
}

/** How long Telegram wants to be left alone. */
export function waitOf(error: unknown): number | undefined {
  const refusal = refusalOf(error);
  if (refusal?.error_code !== 429) return undefined;
  return refusal.parameters.retry_after === undefined ? DEFAULT_WAIT_MS : refusal.parameters.retry_after * 1000;
}

function toResult(error: unknown): SendResult {
  const reason = describeError(error);
  if (error instanceof MissingPackage) return { status: "failed", reason };
  const refusal = refusalOf(error);
  if (!refusal) {
    // Telegram knows no idempotency keys: what was cut off may have arrived.
    return { status: neverConnected(codeOf(error) ?? "") ? "retry" : "unknown", reason };
  }
  const afterMs = waitOf(error);
  if (afterMs !== undefined) return { status: "retry", reason, afterMs };
  if (refusal.error_code >= 500) return { status: "retry", reason };
  return refusal.error_code < 400 ? { status: "unknown", reason } : { status: "failed", reason };
}

/** A chat, with the topic where one is named. */
function destination({ to, thread }: OutgoingMessage): { chat: string; thread: Record<"message_thread_id", number> | undefined } {
  const [chat = "", topic] = to.split(":");
  const id = Number(thread ?? topic ?? 0);
  // The general topic is 1 and may not be named.
  return { chat, thread: id > 1 ? { message_thread_id: id } : undefined };
}

/** `send` of the channel. */
export function createSend(client: () => Promise<Api>, log: Pick<PluginContext<Config>["log"], "warn">): Channel["send"] {
  return async (message, signal) => {
    const { thread, chat } = destination(message);
    const reply = Number(message.replyTo?.split(":").at(-1) ?? Number.NaN);
    const options = {
      ...thread,
      // A preview would make Telegram fetch what a text names.
      link_preview_options: { is_disabled: true },
      ...(Number.isSafeInteger(reply) ? { reply_parameters: { message_id: reply, allow_sending_without_reply: true } } : {}),
    };
    const html = toHtml(message.text);
    const blank = visibleText(html).trim() === "";
    const forms = blank ? [{ text: message.text }] : [{ text: html, parse_mode: "HTML" as const }, { text: toPlainText(message.text) }];
    const attempt = async (to: string, [form, ...others]: { text: string; parse_mode?: "HTML" }[], moved = false): Promise<SendResult> => {
      if (!form) return { status: "failed", reason: "telegram takes the text in no form" };
      const { text, ...mode } = form;
      try {
        const api = await client();
        const sent = await api.sendMessage(to, text, { ...options, ...mode }, asSdkSignal(signal));
        return { status: "sent", messageIds: [String(sent.message_id)] };
      } catch (error) {
        const refusal = refusalOf(error);
        const next = refusal?.parameters.migrate_to_chat_id;
        if (next !== undefined && !moved) {
          log.warn(`the telegram group ${to} is now ${next}: change the recipient`);
          return attempt(String(next), [form, ...others], true);
        }
        if (refusal?.error_code === 400 && /can't parse entities/i.test(refusal.description) && others.length > 0)
          return attempt(to, others, moved);
        return toResult(error);
      }
    };
    return attempt(chat, forms);
  };
}
