import { exportJWK, generateKeyPair, SignJWT, type CryptoKey } from "jose";
import { bytesAnswer, createShelf } from "./shelf.ts";
import type { Fault } from "../../src/testing/channel.ts";
import { createFaults, failing, json, serve, type Answer, type Call } from "./wire.ts";
import { createTypingLog, keepSign } from "./typing-log.ts";

export const APP_ID = "11111111-2222-3333-4444-555555555555";
export const APP_SECRET = "client~secret-0815";
export const TENANT = "99999999-8888-7777-6666-555555555555";
export const BOT = `28:${APP_ID}`;
export const USER = "29:1-AdaLovelaceXYZ";
export const ENTRA = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";
export const PERSONAL = "a:1pErSoNaL_conversation-1";
export const CHANNEL = "19:2fChannelOfOps@thread.tacv2";
const ISSUER = "https://api.botframework.com";
const MAX_ACTIVITY = 28 * 1024;

/** A message as it arrived at the Connector. */
export interface Arrived {
  to: string;
  text: string;
  /** The buttons of its card. */
  buttons: { title: string; data: unknown }[];
  textFormat: unknown;
  replyToId: unknown;
}

export interface Failure {
  status: number;
  code: string;
  headers?: Record<string, string>;
}

const FAILURES: Partial<Record<Fault, Failure>> = {
  "rate-limited": { status: 429, code: "TooManyRequests", headers: { "retry-after": "2" } },
  "no-such-recipient": { status: 404, code: "ConversationNotFound" },
};

export type TeamsServer = Awaited<ReturnType<typeof teamsServer>>;

/** An error of the Connector. Its message quotes the request. */
const refuse = ({ status, code, headers }: Failure, quoted = ""): Answer =>
  json(status, { error: { code, message: `refused: ${quoted}` } }, headers);

interface Card {
  type: string;
  version: string;
  body: { type: string; text: string }[];
  actions: { type: string; title: string; data: unknown }[];
}

/** The buttons of an activity's card; undefined if the card is not as Teams wants it. */
function readCard({ attachments = [] }: Record<string, unknown>): Arrived["buttons"] | undefined {
  const cards = attachments as { contentType: string; content: Card }[];
  const fits = ({ contentType, content }: (typeof cards)[number]): boolean =>
    contentType === "application/vnd.microsoft.card.adaptive" &&
    content.type === "AdaptiveCard" &&
    /^1\.[0-5]$/.test(content.version) &&
    content.actions.length <= 6 &&
    content.actions.every(({ type, title }) => type === "Action.Submit" && title !== "");
  return cards.every(fits) ? cards.flatMap(({ content }) => content.actions) : undefined;
}

// Made once: it takes longer than most tests.
const keys = generateKeyPair("RS256", { extractable: true });

/** Starts a local sign-in, OpenID issuer and Bot Connector in one. */
export async function teamsServer() {
  const { privateKey, publicKey } = await keys;
  const jwk = {
    ...(await exportJWK(publicKey)),
    kid: "one",
    alg: "RS256",
    use: "sig",
    endorsements: ["msteams"],
  };
  const conversations = new Map<string, string>([[ENTRA, "a:opened-1"]]);
  const tokens = new Set<string>();
  const ids = new WeakMap<Arrived, string>();
  const arrived: Arrived[] = [];
  const opened: Record<string, unknown>[] = [];
  const shelf = createShelf();
  const typing = createTypingLog();
  let posted = 0;
  let given = 0;
  const faults = createFaults<
    Fault | Failure | "cut-after-taking" | "sign-in-down" | "metadata-down" | "keys-down"
  >();

  const signIn = (path: string, body: string): Answer => {
    self.asked.token++;
    const form = Object.fromEntries(new URLSearchParams(body));
    if (faults.see() === "sign-in-down") return json(503, {});
    const known =
      form["client_id"] === APP_ID &&
      form["client_secret"] === APP_SECRET &&
      path.startsWith(`/${TENANT}/`);
    if (faults.see() === "bad-credential" || !known)
      return json(401, { error: "invalid_client", error_description: body });
    if (form["grant_type"] !== "client_credentials" || form["scope"] !== `${ISSUER}/.default`)
      return json(400, { error: "invalid_scope" });
    const token = `connector-token-${++given}`;
    tokens.add(token);
    return json(200, {
      token_type: "Bearer",
      expires_in: self.lasts,
      ext_expires_in: self.lasts,
      access_token: token,
    });
  };

  const openConversation = (body: Call["body"], raw: string): Answer => {
    const { isGroup, bot, members, tenantId } = body as {
      isGroup: unknown;
      bot: { id: unknown };
      members: { id: string }[];
      tenantId: unknown;
    };
    const id = conversations.get(members[0]?.id ?? "");
    if (isGroup !== false || bot.id !== BOT || tenantId !== TENANT || id === undefined)
      return refuse({ status: 400, code: "BadSyntax" }, raw);
    opened.push(body);
    return json(201, { id });
  };

  const connector = (call: Call, raw: string): Answer => {
    const { method, path, body, headers } = call;
    if (!tokens.has((headers.authorization ?? "").replace(/^Bearer /, "")))
      return json(401, { message: "Authorization has been denied for this request." });
    const picture = /^\/v3\/attachments\/(\w+)\/views\/original$/.exec(path)?.[1];
    if (picture !== undefined) return bytesAnswer(shelf, picture, call);
    if (path === "/v3/conversations") return openConversation(body, raw);
    const found = /^\/v3\/conversations\/([^/]+)\/activities(?:\/([^/]+))?$/.exec(path);
    if (!found) return refuse({ status: 404, code: "NotFound" });
    const to = decodeURIComponent(found[1] ?? "");
    if (![PERSONAL, CHANNEL, "a:opened-1"].includes(to.split(";")[0] ?? ""))
      return refuse({ status: 404, code: "ConversationNotFound" }, raw);
    if (method === "DELETE") {
      const at = arrived.findIndex((one) => ids.get(one) === found[2]);
      if (at < 0) return refuse({ status: 404, code: "ActivityNotFoundInConversation" }, raw);
      arrived.splice(at, 1);
      return { status: 200 };
    }
    if (Buffer.byteLength(raw) > MAX_ACTIVITY)
      return refuse({ status: 413, code: "MessageSizeTooBig" }, raw);
    if (method === "POST" && body["type"] === "typing") {
      const [conversation = "", thread] = to.split(";messageid=");
      return keepSign(typing, conversation, thread) ?? json(201, { id: "1700000000000" });
    }
    const buttons = readCard(body);
    const text = typeof body["text"] === "string" ? body["text"] : "";
    if (body["type"] !== "message" || text.trim() === "" || !buttons)
      return refuse({ status: 400, code: "BadSyntax" }, raw);
    const { textFormat, replyToId } = body;
    const activity = { to, text, buttons, textFormat, replyToId };
    if (method === "PUT") {
      const known = arrived.find((one) => ids.get(one) === found[2]);
      if (!known) return refuse({ status: 404, code: "NotFound" }, raw);
      Object.assign(known, activity);
      return json(200, { id: found[2] });
    }
    const id = `17600000000${String(++posted).padStart(2, "0")}`;
    ids.set(activity, id);
    arrived.push(activity);
    return json(201, { id });
  };

  const { url, close } = await serve((call): Answer | Promise<Answer> => {
    const { path } = call;
    const raw = call.bytes.toString();
    if (path.endsWith("/oauth2/v2.0/token")) return signIn(path, raw);
    const down =
      (faults.see() === "metadata-down" && path === "/openid") ||
      (faults.see() === "keys-down" && path === "/keys");
    if (down) return json(500, {});
    if (path === "/openid") {
      self.asked.metadata++;
      return json(200, {
        issuer: ISSUER,
        jwks_uri: `${url}/keys`,
        id_token_signing_alg_values_supported: ["RS256"],
      });
    }
    if (path === "/keys") {
      self.asked.keys++;
      return json(200, {
        keys: [
          jwk,
          { ...jwk, kid: "of-another-channel", endorsements: ["webchat"] },
          { ...jwk, kid: "of-any-kind", alg: undefined },
        ],
      });
    }
    // The share, whose addresses are signed.
    const shared = /^\/personal\/(\w+)$/.exec(path)?.[1];
    if (shared !== undefined) return bytesAnswer(shelf, shared, call);
    const fault = faults.take();
    const failure = typeof fault === "object" ? fault : FAILURES[fault as Fault];
    return failing(fault, () => (failure ? refuse(failure, raw) : connector(call, raw)));
  });
  const self = {
    url,
    arrived,
    /** Files that people have sent. */
    shelf,
    typing,
    /** The bodies of conversations that were opened. */
    opened,
    /** The number of requests for each thing. */
    asked: { token: 0, metadata: 0, keys: 0 },
    /** The lifetime of a new token, in seconds. */
    lasts: 3600,
    /** The private key. */
    key: privateKey,
    /** From now on no token that was given holds. */
    revoke: () => tokens.clear(),
    /** The next `times` requests to the Connector fail. */
    fail: faults.fail,
    /** A token as the Bot Framework signs it for an activity. */
    sign(
      claims: Record<string, unknown> = {},
      {
        key = privateKey,
        kid = "one",
        alg = "RS256",
      }: { key?: CryptoKey; kid?: string; alg?: string } = {},
    ): Promise<string> {
      const now = Math.floor(Date.now() / 1000);
      const all = {
        iss: ISSUER,
        aud: APP_ID,
        serviceurl: url,
        nbf: now - 10,
        exp: now + 3600,
        ...claims,
      };
      return new SignJWT(all).setProtectedHeader({ alg, kid, typ: "JWT" }).sign(key);
    },
    close,
  };
  return self;
}

/** A direct message, as Teams posts it. */
export function directMessage(
  serviceUrl: string,
  more: Record<string, unknown> = {},
): Record<string, unknown> {
  return {
    type: "message",
    id: "1760000000001",
    timestamp: "2026-10-09T10:00:00.000Z",
    channelId: "msteams",
    serviceUrl,
    from: { id: USER, name: "Ada Lovelace", aadObjectId: ENTRA },
    recipient: { id: BOT, name: "Rouse" },
    conversation: { conversationType: "personal", tenantId: TENANT, id: PERSONAL },
    channelData: { tenant: { id: TENANT } },
    textFormat: "plain",
    text: "How is the build?",
    ...more,
  };
}

/** A message of a channel that mentions the bot. */
export function channelMessage(
  serviceUrl: string,
  more: Record<string, unknown> = {},
): Record<string, unknown> {
  return directMessage(serviceUrl, {
    conversation: {
      isGroup: true,
      conversationType: "channel",
      tenantId: TENANT,
      id: `${CHANNEL};messageid=1759999999999`,
    },
    text: "<at>Rouse</at>&nbsp;how is the build?",
    entities: [
      { type: "mention", mentioned: { id: BOT, name: "Rouse" }, text: "<at>Rouse</at>" },
      { type: "clientInfo", locale: "en-GB" },
    ],
    ...more,
  });
}

/** A request to the bot's address. */
export function activityRequest(activity: unknown, token: string | undefined): Request {
  const headers = {
    "content-type": "application/json",
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
  };
  const body = typeof activity === "string" ? activity : JSON.stringify(activity);
  return new Request("http://gateway.example/channels/msteams/api/messages", {
    method: "POST",
    headers,
    body,
  });
}
