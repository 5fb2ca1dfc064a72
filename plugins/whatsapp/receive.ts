import { createHmac } from "node:crypto";
import { readBody, sameSecret, type ChannelHost, type IncomingMessage, type PluginContext } from "#plugin";
import type { WhatsAppConfig } from "./index.ts";
import { parseNumber } from "./recipient.ts";

const MAX_BODY = 256 * 1024;

interface Message {
  id?: unknown;
  from?: unknown;
  type?: unknown;
  text?: { body?: unknown };
  button?: { text?: unknown };
  interactive?: { button_reply?: { title?: unknown }; list_reply?: { title?: unknown } };
  [media: string]: unknown;
}
interface Value {
  metadata?: { phone_number_id?: unknown; display_phone_number?: string };
  messages?: Message[];
  statuses?: { status?: unknown; errors?: { code?: unknown }[] }[];
}
interface Notification {
  object?: unknown;
  entry?: { changes?: { field?: unknown; value?: Value }[] }[];
}

/** Answers Meta's webhook: the handshake, and signed notifications of messages and of messages that did not arrive. */
export async function answer(context: PluginContext<WhatsAppConfig>, request: Request, host: ChannelHost): Promise<Response> {
  const { config, log } = context;
  const url = new URL(request.url);
  if (!url.pathname.endsWith("/webhook")) return plain(404, "not found");
  if (request.method === "GET") return handshake(config, url.searchParams);
  if (request.method !== "POST") return plain(405, "only GET and POST", { allow: "GET, POST" });
  if (config.appSecret === undefined) {
    log.warn("a webhook came in, but channels.whatsapp.appSecret is not set, so nobody can be believed");
    return plain(403, "receiving is not set up");
  }
  const raw = await readBody(request, MAX_BODY);
  if (raw === undefined) return plain(413, "the body is too large");
  if (!signed(raw, request.headers.get("x-hub-signature-256"), config.appSecret)) return plain(401, "the signature does not match");
  let notification: Notification;
  try {
    notification = JSON.parse(raw.toString("utf8")) as Notification;
  } catch {
    return plain(400, "the body is not JSON");
  }
  for (const value of valuesOf(notification, config.phoneNumberId)) {
    for (const message of listOf(value.messages)) {
      const incoming = readMessage(message, value);
      if (incoming) await host.receive(incoming);
      else log.debug(`a notification of type ${typeOf(message)} was passed over`);
    }
    for (const { status, errors } of listOf(value.statuses)) {
      const codes = listOf(errors).map(({ code }) => Number(code));
      if (status === "failed") log.warn(`a message did not arrive: WhatsApp error ${codes.join(", ") || "without a code"}${hint(codes)}`);
    }
  }
  return plain(200, "");
}

function plain(status: number, text: string, headers: Record<string, string> = {}): Response {
  return new Response(text, {
    status,
    headers: { "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff", ...headers },
  });
}

function hint(codes: readonly number[]): string {
  return codes.includes(131047) ? " (more than 24 hours since the recipient last wrote)" : "";
}

function handshake({ verifyToken }: WhatsAppConfig, query: URLSearchParams): Response {
  const challenge = query.get("hub.challenge") ?? "";
  const known = verifyToken !== undefined && sameSecret(query.get("hub.verify_token") ?? "", verifyToken);
  if (!known || query.get("hub.mode") !== "subscribe" || challenge.length > 500) return plain(403, "the verify token does not match");
  return plain(200, challenge);
}

function signed(raw: Buffer, header: string | null, secret: string): boolean {
  return sameSecret(header ?? "", `sha256=${createHmac("sha256", secret).update(raw).digest("hex")}`);
}

function listOf<T>(value: readonly T[] | undefined): readonly T[] {
  return Array.isArray(value) ? value.filter((entry) => typeof entry === "object" && entry !== null) : [];
}

/** What concerns the configured number: an app's webhook tells of all its numbers. */
function valuesOf(notification: Notification | null, phoneNumberId: string): Value[] {
  if (notification?.object !== "whatsapp_business_account") return [];
  return listOf(notification.entry)
    .flatMap(({ changes }) => listOf(changes))
    .filter(({ field, value }) => field === "messages" && value?.metadata?.phone_number_id === phoneNumberId)
    .flatMap(({ value }) => (value ? [value] : []));
}

function typeOf({ type }: Message): string {
  return typeof type === "string" && /^[a-z_]{1,30}$/.test(type) ? type : "unknown";
}

/** A message as a turn, or undefined where there is nothing to answer. Media that Rouse does not fetch are named. */
function readMessage(message: Message, { metadata }: Value): IncomingMessage | undefined {
  const { id, from } = message;
  const type = typeOf(message);
  if (typeof id !== "string" || typeof from !== "string" || type === "reaction" || type === "system") return undefined;
  const number = parseNumber(from);
  const own = parseNumber(metadata?.display_phone_number ?? "");
  if (number === undefined || number === own) return undefined;
  const { text, button, interactive } = message;
  const caption = (message[type] as { caption?: unknown } | undefined)?.caption;
  const written = [text?.body, button?.text, interactive?.button_reply?.title, interactive?.list_reply?.title, caption];
  const found = written.find((part): part is string => typeof part === "string" && part.trim() !== "");
  return { id, from: number, to: number, direct: true, text: found ?? `[${type}]` };
}
