import { heard, plainAnswer as plain, readHook, tokenVerifier, type ChannelHost, type Keepsakes, type PluginContext } from "#plugin";
import type { TeamsConfig } from "./index.ts";
import { trusted, type Reference } from "./references.ts";

const MAX_BODY = 256 * 1024;

interface Activity {
  type?: unknown;
  id?: unknown;
  channelId?: unknown;
  serviceUrl?: unknown;
  text?: unknown;
  from?: { id?: unknown; aadObjectId?: unknown };
  recipient?: { id?: unknown };
  conversation?: { id?: unknown; conversationType?: unknown; tenantId?: unknown };
  entities?: { type?: unknown; text?: unknown; mentioned?: { id?: unknown } }[];
  attachments?: { contentType?: unknown }[];
}

/** Answers what Teams posts to the bot: an activity with a token that its own keys signed. */
export function createReceiver(context: PluginContext<TeamsConfig>, references: Keepsakes<Reference>) {
  const { config, log } = context;
  const verify = tokenVerifier(context, { url: config.openIdUrl, audience: config.appId });

  /** The service that the token speaks for, or undefined where it is not to be believed. */
  const serviceOf = async (token: string, channelId: unknown): Promise<string | undefined> => {
    const { claims, key } = (await verify(token)) ?? {};
    const endorsements = key?.["endorsements"];
    if (Array.isArray(endorsements) && !endorsements.includes(channelId)) return undefined;
    return typeof claims?.["serviceurl"] === "string" ? claims["serviceurl"] : undefined;
  };

  return async (request: Request, host: ChannelHost): Promise<Response> => {
    const tokenOf = (headers: Headers) => /^Bearer ([\w.-]{1,8192})$/.exec(headers.get("authorization") ?? "")?.[1];
    const admits = (headers: Headers): boolean => tokenOf(headers) !== undefined;
    const read = await readHook<Activity>(request, { path: "/api/messages", admits, most: MAX_BODY });
    if (!read.ok) return read.response;
    const activity = read.body;
    if (activity === undefined) return plain(400, "the body is not an activity");
    let service: string | undefined;
    try {
      service = await serviceOf(tokenOf(request.headers) ?? "", activity.channelId);
    } catch {
      log.warn("the keys of the Bot Framework cannot be fetched: check channels.msteams.openIdUrl and the network");
      return plain(503, "the keys cannot be fetched");
    }
    if (service === undefined || service !== activity.serviceUrl || activity.channelId !== "msteams")
      return plain(403, "the token is not accepted");
    if (!trusted(service, config)) {
      log.warn(`a message came from a service that is not known: ${JSON.stringify(service.slice(0, 200))}`);
      return plain(403, "the service is not accepted");
    }
    const found = readActivity(activity, service);
    if (!found) return plain(200, "");
    await references.keep(found.keys, found.reference);
    if (found.message) await host.receive(found.message);
    return plain(200, "");
  };
}

/** What an activity tells: where it came from, and the message in it that is for the agent, if one is. */
function readActivity(activity: Activity, serviceUrl: string) {
  const { id, from, recipient, conversation } = activity;
  if (typeof conversation?.id !== "string" || typeof recipient?.id !== "string" || typeof from?.id !== "string") return undefined;
  // A thread's root is part of the conversation's id.
  const [to = "", thread] = conversation.id.split(";messageid=");
  const direct = conversation.conversationType === "personal";
  const user = typeof from.aadObjectId === "string" ? from.aadObjectId.toLowerCase() : from.id;
  const tenant = typeof conversation.tenantId === "string" ? conversation.tenantId : undefined;
  const reference = { serviceUrl, conversation: to, bot: recipient.id, tenant, user: direct ? user : undefined };
  const own = from.id === recipient.id;
  const keys = direct && !own ? [to, `user:${from.id}`, `user:${user}`] : [to];
  if (activity.type !== "message" || typeof id !== "string" || own) return { keys, reference };
  const { called, text } = textOf(activity, recipient.id);
  return { keys, reference, message: heard({ id, from: user, to, thread, direct, called, text }) };
}

/** What was said, without the mentions of the bot, and whether it was mentioned. A message of attachments alone names their kinds. */
function textOf({ entities, attachments, text }: Activity, bot: string): { called: boolean; text: string } {
  const known = Array.isArray(entities) ? entities : [];
  const mentions = known.filter((entity) => entity?.type === "mention" && entity.mentioned?.id === bot);
  let said = typeof text === "string" ? text : "";
  for (const mention of mentions) if (typeof mention.text === "string") said = said.replace(mention.text, "");
  said = said.replaceAll("&nbsp;", " ").trim();
  const kinds = Array.isArray(attachments) ? attachments.map((entry) => entry?.contentType) : [];
  const named = kinds.filter((kind) => typeof kind === "string" && kind !== "text/html").map((kind) => `[${String(kind)}]`);
  return { called: mentions.length > 0, text: said === "" ? named.join(" ") : said };
}
