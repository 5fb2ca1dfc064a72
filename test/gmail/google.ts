import { createHash, generateKeyPairSync, randomBytes, type KeyObject } from "node:crypto";
import { jwtVerify, SignJWT } from "jose";
import type { GmailMessage, MimePart } from "../../plugins/gmail/messages.ts";
import { json, serve, type Answer, type Call } from "../channels/wire.ts";
import { createMailboxes } from "./google-mail.ts";
import { createPubSub } from "./google-pubsub.ts";

/** A request that Google would refuse, with the body that it answers. */
export class Refusal extends Error {
  readonly status: number;
  readonly body: unknown;

  constructor(
    status: number,
    code: string,
    details: unknown[] = [],
    message = `message-canary ${code}`,
  ) {
    super(code);
    this.status = status;
    this.body = { error: { code: status, message, status: code, details } };
  }
}

/** A request, as handlers get it. */
export interface Asked {
  method: string;
  path: string;
  query: URLSearchParams;
  // oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
  body: any;
  /** Ends when the caller has gone. */
  gone: AbortSignal;
  /** On whose behalf. */
  subject: string;
}

export type Fault = { status: number; body?: unknown } | "cut" | "hang" | { slowMs: number };

export type FakeGoogle = Awaited<ReturnType<typeof createGoogle>>;

export interface MailInput {
  from?: string;
  to?: string;
  subject?: string;
  text?: string;
  labels?: string[];
  payload?: MimePart;
  snippet?: string;
}

export type { GmailMessage };

const CLIENT_ID = "client-4711.apps.googleusercontent.com";
const CLIENT_SECRET = "client-secret-canary";
const SERVICE_EMAIL = "robot@rouse-test.iam.gserviceaccount.com";
const SCOPES = [
  "https://www.googleapis.com/auth/gmail.readonly",
  "https://www.googleapis.com/auth/pubsub",
];

interface Token {
  subject: string;
  scopes: string[];
  refresh?: string;
}

// Made once: it takes longer than most tests.
const keys = generateKeyPairSync("rsa", { modulusLength: 2048 });
const signer = generateKeyPairSync("rsa", { modulusLength: 2048 });

/** A server that speaks the REST interfaces of Google that a mail watcher uses. */
export async function createGoogle() {
  const account = "ann@example.com";
  const project = "rouse-test";
  const codes = new Map<
    string,
    { challenge: string; redirect: string; scopes: string[]; subject: string }
  >();
  const refreshTokens = new Map<string, { subject: string; scopes: string[] }>();
  const accessTokens = new Map<string, Token>();
  const faults: { match: RegExp; fault: Fault; times: number }[] = [];
  const requests: string[] = [];

  const issue = (token: Token) => {
    const made = `token-canary-${randomBytes(12).toString("hex")}`;
    accessTokens.set(made, token);
    return {
      access_token: made,
      expires_in: 3600,
      token_type: "Bearer",
      scope: token.scopes.join(" "),
    };
  };
  const bad = (code: string): Answer => json(400, { error: code, error_description: "said more" });

  const authorize = (query: URLSearchParams): Answer => {
    const redirect = new URL(query.get("redirect_uri") ?? "");
    if (query.get("client_id") !== CLIENT_ID || query.get("response_type") !== "code")
      return { status: 400 };
    redirect.searchParams.set("state", query.get("state") ?? "");
    if (google.consent.deny) redirect.searchParams.set("error", "access_denied");
    else {
      const code = randomBytes(12).toString("hex");
      if (query.get("code_challenge_method") !== "S256") return { status: 400 };
      const scopes = google.consent.scopes ?? (query.get("scope") ?? "").split(" ");
      const challenge = query.get("code_challenge") ?? "";
      codes.set(code, {
        challenge,
        redirect: query.get("redirect_uri") ?? "",
        scopes,
        subject: google.consent.account,
      });
      redirect.searchParams.set("code", code);
    }
    return { status: 302, headers: { location: redirect.href } };
  };

  const byCode = (form: URLSearchParams): Answer => {
    const grant = codes.get(form.get("code") ?? "");
    codes.delete(form.get("code") ?? "");
    const challenge = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    if (grant?.challenge !== challenge || grant.redirect !== form.get("redirect_uri"))
      return bad("invalid_grant");
    const refresh = `refresh-canary-${randomBytes(12).toString("hex")}`;
    const { subject, scopes } = grant;
    refreshTokens.set(refresh, { subject, scopes });
    return json(200, { ...issue({ subject, scopes, refresh }), refresh_token: refresh });
  };

  const byAssertion = async (assertion: string): Promise<Answer> => {
    const checked = await jwtVerify(assertion, keys.publicKey, {
      issuer: SERVICE_EMAIL,
      audience: "https://oauth2.googleapis.com/token",
    }).catch(() => undefined);
    if (!checked) return bad("invalid_grant");
    const { sub, scope } = checked.payload as { sub?: string; scope: string };
    if (sub !== undefined && !google.delegation) return json(401, { error: "unauthorized_client" });
    return json(200, issue({ subject: sub ?? SERVICE_EMAIL, scopes: scope.split(" ") }));
  };

  const token = async (form: URLSearchParams): Promise<Answer> => {
    if (form.get("grant_type") === "urn:ietf:params:oauth:grant-type:jwt-bearer")
      return byAssertion(form.get("assertion") ?? "");
    if (form.get("client_id") !== CLIENT_ID || form.get("client_secret") !== CLIENT_SECRET)
      return json(401, { error: "invalid_client" });
    if (form.get("grant_type") === "authorization_code") return byCode(form);
    const refresh = form.get("refresh_token") ?? "";
    const grant = refreshTokens.get(refresh);
    return grant ? json(200, issue({ ...grant, refresh })) : bad("invalid_grant");
  };

  const identify = ({ headers }: Call, path: string): Token => {
    const found = accessTokens.get(/^Bearer (.*)$/.exec(headers.authorization ?? "")?.[1] ?? "");
    if (!found) throw new Refusal(401, "UNAUTHENTICATED");
    const needed = path.startsWith("/gmail/") ? SCOPES[0] : SCOPES[1];
    if (!found.scopes.includes(needed as string)) throw new Refusal(403, "PERMISSION_DENIED");
    return found;
  };

  const api = async (call: Call, gone: AbortSignal): Promise<unknown> => {
    const { method, query, body } = call;
    const path = decodeURIComponent(call.path);
    const { subject } = identify(call, path);
    const asked: Asked = { method, path, query, body, gone, subject };
    if (path.startsWith("/gmail/v1/users/")) return mail.handle(asked);
    if (path.startsWith("/v1/projects/")) return pubsub.handle(asked);
    throw new Refusal(404, "NOT_FOUND");
  };

  const { url, close } = await serve(async (call, gone): Promise<Answer> => {
    const line = `${call.method} ${decodeURIComponent(call.path)}`;
    requests.push(line);
    const planned = faults.find(({ match, times }) => times > 0 && match.test(line));
    if (planned) {
      planned.times--;
      const { fault } = planned;
      if (typeof fault === "string") return fault;
      if (!("slowMs" in fault)) return json(fault.status, fault.body ?? {});
      await new Promise((done) => setTimeout(done, fault.slowMs));
    }
    if (call.path === "/auth") return authorize(call.query);
    if (call.path === "/token") return token(new URLSearchParams(call.bytes.toString()));
    if (call.path === "/certs") {
      const one = signer.publicKey.export({ type: "spki", format: "pem" });
      return json(200, { one }, { "cache-control": "public, max-age=600" });
    }
    return api(call, gone).then(
      (body) => json(200, body),
      (error: unknown) => {
        if (error instanceof Refusal) return json(error.status, error.body);
        throw error;
      },
    );
  });
  const pubsub = createPubSub();
  const mail = createMailboxes(account, (topic) => pubsub.publisher(topic));
  const now = (): number => Math.floor(Date.now() / 1000);
  const extra = {
    url,
    /** For `hooks.gmail.endpoints`. */
    endpoints: {
      gmail: url,
      pubsub: url,
      oauthAuth: `${url}/auth`,
      oauthToken: `${url}/token`,
      certs: `${url}/certs`,
    },
    /** Contents of credentials files. */
    installed: {
      installed: {
        client_id: CLIENT_ID,
        client_secret: CLIENT_SECRET,
        project_id: project,
        redirect_uris: ["http://localhost"],
      },
    },
    serviceAccount: {
      type: "service_account",
      project_id: project,
      private_key_id: "k1",
      private_key: keys.privateKey.export({ type: "pkcs8", format: "pem" }),
      client_email: SERVICE_EMAIL,
    },
    account,
    project,
    /** Every request, as `METHOD path`. */
    requests,
    /** The choices of the person at the browser. */
    consent: { deny: false, scopes: undefined as string[] | undefined, account },
    /** The service account may act for mailboxes. */
    delegation: true,
    /** Takes back every grant. */
    revoke(): void {
      refreshTokens.clear();
      accessTokens.clear();
    },
    /** Ends every access token, as an hour would. */
    expireTokens: () => accessTokens.clear(),
    /** Lets the next requests that match fail. */
    fail: (match: RegExp, fault: Fault, times = 1) => void faults.push({ match, fault, times }),
    mend: () => void faults.splice(0),
    /** An OIDC token as Pub/Sub sends it. */
    pushToken: (claims: Record<string, unknown> = {}, key: KeyObject = signer.privateKey) =>
      new SignJWT({
        iss: "https://accounts.google.com",
        email: SERVICE_EMAIL,
        email_verified: true,
        iat: now(),
        exp: now() + 3600,
        ...claims,
      })
        .setProtectedHeader({ alg: "RS256", kid: "one" })
        .sign(key),
    close,
  };
  const google = Object.assign(extra, mail, pubsub);
  return google;
}
