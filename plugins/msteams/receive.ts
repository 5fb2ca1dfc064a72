import {
  objectsIn,
  parseText,
  parseWebhook,
  textResponse as plain,
  toEdit,
  toIncomingMessage,
  tokenVerifier,
  type KeyValueStore,
} from "#channel-kit";
import type { ChannelHost, PluginContext, ReceivedMessage } from "#plugin";
import type { TeamsConfig } from "./config.ts";
import { readContent, type TeamsContent } from "./content.ts";
import { trusted, type Reference } from "./references.ts";

const MAX_BODY = 256 * 1024;

interface Activity extends TeamsContent {
  type?: unknown;
  id?: unknown;
  channelId?: unknown;
  serviceUrl?: unknown;
  from?: { id?: unknown; name?: unknown; aadObjectId?: unknown };
  recipient?: { id?: unknown };
  conversation?: { id?: unknown; name?: unknown; conversationType?: unknown };
  /** The language of the sender's app. */
  locale?: unknown;
  /** When the message was changed last. */
  localTimestamp?: unknown;
  timestamp?: unknown;
}

/** Answers what Teams posts to the bot: an activity with a token that its own keys signed. */
export function createReceiver(
  context: PluginContext<TeamsConfig>,
  references: KeyValueStore<Reference>,
) {
  const { config, log } = context;
  const verify = tokenVerifier(context, { url: config.openIdUrl, audience: config.appId });

  return async (request: Request, host: ChannelHost): Promise<Response> => {
    const token = /^Bearer ([\w.-]{1,8192})$/.exec(request.headers.get("authorization") ?? "")?.[1];
    const read = await parseWebhook<Activity>(request, {
      path: "/api/messages",
      admits: () => token !== undefined,
      most: MAX_BODY,
    });
    if (!read.ok) return read.response;
    const verified = await verify(token ?? "").catch(() => "unknown" as const);
    if (verified === "unknown") {
      log.warn(
        "the keys of the Bot Framework cannot be fetched: check channels.msteams.openIdUrl and the network",
      );
      return plain(503, "the keys cannot be fetched");
    }
    // The token speaks for a service, and its key for some channels.
    const { channelId, serviceUrl: service } = read.body;
    const channels = verified?.key["endorsements"];
    const endorsed =
      channelId === "msteams" && (!Array.isArray(channels) || channels.includes(channelId));
    if (!endorsed || typeof service !== "string" || verified?.claims["serviceurl"] !== service)
      return plain(403, "the token is not accepted");
    if (!trusted(service, config)) {
      log.warn(
        `a message came from a service that is not known: ${JSON.stringify(service.slice(0, 200))}`,
      );
      return plain(403, "the service is not accepted");
    }
    const found = readActivity(read.body);
    if (found.to !== undefined)
      await references.set(found.keys, { serviceUrl: service, conversation: found.to });
    if (found.message) await host.receive(found.message);
    return plain(200, "");
  };
}

interface Found {
  /** The conversation, and the keys by which it is known. */
  to?: string;
  keys: string[];
  message?: ReceivedMessage | undefined;
}

/** Reads an activity: its conversation, and its message or why that is not for the agent; no message for the bot's own. */
function readActivity({
  type,
  id,
  from,
  recipient,
  conversation,
  locale,
  ...said
}: Activity): Found {
  const written =
    typeof id === "string" && (type === "message" || type === "messageUpdate") ? { id } : undefined;
  if (
    typeof conversation?.id !== "string" ||
    typeof recipient?.id !== "string" ||
    typeof from?.id !== "string"
  )
    return {
      keys: [],
      message: written && { ...written, skipped: "the message names no sender or no conversation" },
    };
  // A thread's root is part of the conversation's id.
  const [to = "", thread] = conversation.id.split(";messageid=");
  const direct = conversation.conversationType === "personal";
  const user = typeof from.aadObjectId === "string" ? from.aadObjectId.toLowerCase() : from.id;
  const own = from.id === recipient.id;
  const keys = direct && !own ? [to, `user:${from.id}`, `user:${user}`] : [to];
  if (!written || own) return { to, keys };
  const kind =
    conversation.conversationType === "channel" ? ("channel" as const) : ("group" as const);
  const room = direct ? undefined : { kind, name: parseText(conversation.name) };
  const language = getLanguage(locale, said);
  const message = {
    ...written,
    from: user,
    name: parseText(from.name),
    language,
    to,
    thread,
    direct,
    room,
    ...readContent(said, recipient.id),
  };
  const read = toIncomingMessage(message);
  return { to, keys, message: type === "messageUpdate" ? readEdit(read, said) : read };
}

/** The language of a person's app, which older versions say among the entities. */
const getLanguage = (
  locale: unknown,
  { entities }: Pick<Activity, "entities">,
): string | undefined =>
  parseText(locale) ??
  parseText(objectsIn(entities).find(({ type }) => type === "clientInfo")?.locale);

/** A message that replaces the one of its id, which is the time of that. */
function readEdit(read: ReceivedMessage, { timestamp, localTimestamp }: Activity): ReceivedMessage {
  const id = `${read.id} ${parseText(timestamp) ?? parseText(localTimestamp) ?? ""}`;
  return toEdit(read, id, /^\d{13}$/.test(read.id) ? Number(read.id) : undefined);
}
