import {
  findNumber,
  hmacSha256,
  objectsIn,
  parseWebhook,
  sameSecret,
  textResponse,
  toEdit,
  toIncomingMessage,
} from "#channel-kit";
import type { ChannelHost, PluginContext, ReceivedMessage } from "#plugin";
import { getMessageType, readParts, type WhatsAppContent } from "./content.ts";
import { isUserId, parseNumber, type WhatsAppConfig } from "./config.ts";

const MAX_BODY = 256 * 1024;
/** The error of free text whose recipient last wrote more than 24 hours ago. */
const LATE = 131047;
/** The types of what is no message. */
const NOTICES = new Set(["reaction", "system", "revoke", "pin", "keep_in_chat", "poll_update"]);

interface Message extends WhatsAppContent {
  id?: unknown;
  from?: unknown;
  from_user_id?: unknown;
  group_id?: unknown;
  /** The new text of an earlier message. */
  edit?: { original_message_id?: unknown; message?: WhatsAppContent };
}
interface Value {
  metadata?: { phone_number_id?: unknown; display_phone_number?: string };
  contacts?: { wa_id?: unknown; user_id?: unknown; profile?: { name?: unknown } }[];
  messages?: Message[];
  statuses?: {
    status?: unknown;
    biz_opaque_callback_data?: unknown;
    errors?: { code?: unknown }[];
  }[];
}
interface Notification {
  object?: unknown;
  entry?: { changes?: { field?: unknown; value?: Value }[] }[];
}

/** Answers Meta's webhook: the handshake, and signed notifications of messages and of messages that did not arrive. */
export async function answerRequest(
  { config, log }: PluginContext<WhatsAppConfig>,
  request: Request,
  host: ChannelHost,
): Promise<Response> {
  const { appSecret } = config;
  const { pathname, searchParams } = new URL(request.url);
  if (request.method === "GET" && pathname.endsWith("/webhook"))
    return handshake(config, searchParams);
  if (request.method === "POST" && appSecret === undefined) {
    log.warn(
      "a webhook came in, but channels.whatsapp.appSecret is not set, so nobody can be believed",
    );
    return textResponse(403, "receiving is not set up");
  }
  const signed = (raw: Buffer, headers: Headers): boolean =>
    sameSecret(
      headers.get("x-hub-signature-256") ?? "",
      `sha256=${hmacSha256(appSecret ?? "", raw)}`,
    );
  const read = await parseWebhook<Notification>(request, {
    path: "/webhook",
    also: "GET",
    most: MAX_BODY,
    signed,
  });
  if (!read.ok) return read.response;
  for (const value of getValues(read.body, config.phoneNumberId)) {
    for (const message of objectsIn(value.messages)) {
      const incoming = readMessage(message, value, config.allowFrom);
      if (incoming) await host.receive(incoming);
      else log.debug(`a notification of type ${getMessageType(message)} was passed over`);
    }
    for (const { status, errors, biz_opaque_callback_data: idempotencyKey } of objectsIn(
      value.statuses,
    )) {
      const codes = objectsIn(errors).map(({ code }) => Number(code));
      const isLate = codes.includes(LATE);
      const late = isLate ? " (more than 24 hours since the recipient last wrote)" : "";
      if (status !== "failed") continue;
      const reason = `WhatsApp reported error ${codes.join(", ") || "without a code"}${late}`;
      log.warn(`a message did not arrive: ${reason}`);
      if (typeof idempotencyKey === "string")
        await host.notDelivered({
          idempotencyKey,
          reason,
          resend: isLate && config.template !== undefined,
        });
    }
  }
  return textResponse(200, "");
}

function handshake({ verifyToken }: WhatsAppConfig, query: URLSearchParams): Response {
  const challenge = query.get("hub.challenge") ?? "";
  const known =
    verifyToken !== undefined && sameSecret(query.get("hub.verify_token") ?? "", verifyToken);
  if (!known || query.get("hub.mode") !== "subscribe" || challenge.length > 500)
    return textResponse(403, "the verify token does not match");
  return textResponse(200, challenge);
}

/** Returns the notifications about the configured number: an app's webhook reports all its numbers. */
function getValues(notification: Notification, phoneNumberId: string): Value[] {
  if (notification.object !== "whatsapp_business_account") return [];
  return objectsIn(notification.entry)
    .flatMap(({ changes }) => objectsIn(changes))
    .filter(
      ({ field, value }) =>
        field === "messages" && value?.metadata?.phone_number_id === phoneNumberId,
    )
    .flatMap(({ value }) => (value ? [value] : []));
}

/**
 * A message for the agent, or why it is not for it; undefined for reactions, deletions, notices and the number's own.
 */
function readMessage(
  message: Message,
  { metadata, contacts }: Value,
  allowFrom: readonly string[],
): ReceivedMessage | undefined {
  const { id, from } = message;
  const type = getMessageType(message);
  if (typeof id !== "string" || NOTICES.has(type)) return undefined;
  const { edits, content } = readEdit(message);
  if (content === undefined) return { id, skipped: "the edit names no message or has no content" };
  const number = typeof from === "string" ? parseNumber(from) : undefined;
  const userId = [message.from_user_id, from].find(isUserId);
  const sender = getSender(number, userId, allowFrom);
  if (sender === undefined)
    return { id, skipped: "the message comes without a phone number and without a user id" };
  if (number !== undefined && number === parseNumber(metadata?.display_phone_number ?? ""))
    return undefined;
  // An answer would go to the sender alone.
  if (message.group_id !== undefined)
    return {
      id,
      skipped: "the message was written in a group, and this channel answers people alone",
    };
  const name = objectsIn(contacts).find(
    ({ wa_id, user_id }) =>
      (wa_id !== undefined && wa_id === from) || (userId !== undefined && user_id === userId),
  )?.profile?.name;
  const read = toIncomingMessage({
    id: edits ?? id,
    from: findNumber(sender, allowFrom) ?? sender,
    ...(typeof name === "string" && { name }),
    to: sender,
    direct: true,
    mentioned: true,
    parts: readParts(content),
  });
  return edits === undefined ? read : toEdit(read, id);
}

/** The content of a message; of an edit, that of the edited message, with its id. */
function readEdit(message: Message): { edits?: string; content?: WhatsAppContent } {
  if (getMessageType(message) !== "edit") return { content: message };
  const { original_message_id: edits, message: content } = message.edit ?? {};
  return typeof edits === "string" && content ? { edits, content } : {};
}

/**
 * Returns the id of a sender: the number if it is shown, or the business-scoped user id, also if `allowFrom` has that
 * and not the number. The answer goes to the same.
 */
function getSender(
  number: string | undefined,
  userId: string | undefined,
  allowFrom: readonly string[],
): string | undefined {
  const isAllowedById =
    userId !== undefined &&
    allowFrom.includes(userId) &&
    findNumber(number ?? "", allowFrom) === undefined;
  return isAllowedById ? userId : (number ?? userId);
}
