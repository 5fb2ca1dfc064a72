import { createRemoteJWKSet, customFetch, decodeProtectedHeader, errors, jwtVerify } from "jose";
import { readBody, type ChannelHost, type IncomingMessage, type PluginContext } from "#plugin";
import type { TeamsConfig } from "./index.ts";
import { trusted, type References } from "./references.ts";

const MAX_BODY = 256 * 1024;
const METADATA_MS = 24 * 3_600_000;
const CLOCK_TOLERANCE_S = 300;
const TIMEOUT_MS = 10_000;
const UNFETCHED = new Set(["ERR_JWKS_TIMEOUT", "ERR_JOSE_GENERIC"]);

interface Account {
  id?: unknown;
  aadObjectId?: unknown;
}
interface Activity {
  type?: unknown;
  id?: unknown;
  channelId?: unknown;
  serviceUrl?: unknown;
  text?: unknown;
  from?: Account;
  recipient?: Account;
  conversation?: { id?: unknown; conversationType?: unknown; tenantId?: unknown };
  entities?: { type?: unknown; text?: unknown; mentioned?: Account }[];
  attachments?: { contentType?: unknown }[];
}
type Keys = { issuer: string; keys: ReturnType<typeof createRemoteJWKSet>; until: number };

/** Answers what Teams posts to the bot: an activity with a token that its own keys signed. */
export function createReceiver(context: PluginContext<TeamsConfig>, references: References) {
  const { config, clock, log } = context;
  const keysOf = createKeys(context);

  /** The service that the token speaks for, or undefined where it is not to be believed. */
  const verify = async (token: string, channelId: unknown): Promise<string | undefined> => {
    try {
      const { issuer, keys } = await keysOf();
      const { payload } = await jwtVerify(token, keys, {
        issuer,
        audience: config.appId,
        algorithms: ["RS256"],
        requiredClaims: ["exp"],
        clockTolerance: CLOCK_TOLERANCE_S,
        currentDate: new Date(clock.now()),
      });
      const { kid } = decodeProtectedHeader(token);
      const key = keys.jwks()?.keys.find((entry) => entry.kid === kid) as { endorsements?: unknown } | undefined;
      if (Array.isArray(key?.endorsements) && !key.endorsements.includes(channelId)) return undefined;
      return typeof payload["serviceurl"] === "string" ? payload["serviceurl"] : undefined;
    } catch (error) {
      // Nothing is known of the token where the keys could not be had.
      if (!(error instanceof errors.JOSEError) || UNFETCHED.has(error.code)) throw error;
      return undefined;
    }
  };

  return async (request: Request, host: ChannelHost): Promise<Response> => {
    if (!new URL(request.url).pathname.endsWith("/api/messages")) return plain(404, "not found");
    if (request.method !== "POST") return plain(405, "only POST", { allow: "POST" });
    const token = /^Bearer ([\w.-]{1,8192})$/.exec(request.headers.get("authorization") ?? "")?.[1];
    if (token === undefined) return plain(401, "no token");
    const raw = await readBody(request, MAX_BODY);
    if (raw === undefined) return plain(413, "the body is too large");
    const activity = parse(raw.toString("utf8"));
    if (activity === undefined) return plain(400, "the body is not an activity");
    let service: string | undefined;
    try {
      service = await verify(token, activity.channelId);
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
    const found = read(activity, service);
    if (!found) return plain(200, "");
    await references.keep(found.keys, found.reference);
    if (found.message) await host.receive(found.message);
    return plain(200, "");
  };
}

function plain(status: number, text: string, headers: Record<string, string> = {}): Response {
  return new Response(text, {
    status,
    headers: { "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff", ...headers },
  });
}

/** Issuer and keys from the OpenID metadata, which are asked for once a day; `jose` asks again for a key that is new. */
function createKeys({ config, fetch, clock }: PluginContext<TeamsConfig>): () => Promise<Keys> {
  const load = async (): Promise<Keys> => {
    const response = await fetch(config.openIdUrl, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    const { issuer, jwks_uri: uri } = (await response.json()) as { issuer?: unknown; jwks_uri?: unknown };
    if (!response.ok || typeof issuer !== "string" || typeof uri !== "string") throw new Error("no metadata");
    return { issuer, keys: createRemoteJWKSet(new URL(uri), { [customFetch]: fetch }), until: clock.now() + METADATA_MS };
  };
  let held: Keys | undefined;
  let loading: Promise<Keys> | undefined;
  return async () => {
    if (held && clock.now() < held.until) return held;
    // Many requests at once ask once; while new metadata cannot be had, the old ones hold.
    loading ??= load().finally(() => (loading = undefined));
    try {
      held = await loading;
    } catch (error) {
      if (!held) throw error;
    }
    return held;
  };
}

function parse(raw: string): Activity | undefined {
  try {
    const value: unknown = JSON.parse(raw);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** What an activity tells: where it came from, and the message in it that is for the agent, if one is. */
function read(activity: Activity, serviceUrl: string) {
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
  const text = textOf(activity, recipient.id);
  if (activity.type !== "message" || typeof id !== "string" || own || text === "" || !(direct || mentions(activity, recipient.id)))
    return { keys, reference };
  const message: IncomingMessage = { id, from: user, to, direct, text, ...(thread !== undefined && { thread }) };
  return { keys, reference, message };
}

function mentionsOf({ entities }: Activity, bot: string): { text?: unknown }[] {
  return Array.isArray(entities) ? entities.filter((entity) => entity?.type === "mention" && entity.mentioned?.id === bot) : [];
}

function mentions(activity: Activity, bot: string): boolean {
  return mentionsOf(activity, bot).length > 0;
}

/** What was said, without the mentions of the bot. A message of attachments alone names their kinds. */
function textOf(activity: Activity, bot: string): string {
  let text = typeof activity.text === "string" ? activity.text : "";
  for (const mention of mentionsOf(activity, bot)) if (typeof mention.text === "string") text = text.replace(mention.text, "");
  const said = text.replaceAll("&nbsp;", " ").trim();
  if (said !== "" || !Array.isArray(activity.attachments)) return said;
  const kinds = activity.attachments.map((entry) => entry?.contentType).filter((kind): kind is string => typeof kind === "string");
  return kinds
    .filter((kind) => kind !== "text/html")
    .map((kind) => `[${kind}]`)
    .join(" ");
}
