import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type * as GoogleAuth from "google-auth-library";
import type { JWT, OAuth2Client } from "google-auth-library";
import { loadPackage } from "#channel-kit";
import type { GmailConfig } from "./config.ts";
import { GMAIL_SCOPE, googleError, GoogleError, PUBSUB_SCOPE, type Clients } from "./google.ts";
import { GmailProblem } from "./problem.ts";
import { readGrant, type Grant } from "./state.ts";

/** Loads Google's package, which is optional. */
export const loadGoogleAuth = (): Promise<typeof GoogleAuth> =>
  loadPackage("google-auth-library", () => import("google-auth-library")).catch(
    ({ message }: Error) => {
      throw new GmailProblem(message);
    },
  );

/** The content of a credentials file. */
export type Credentials =
  | { kind: "installed"; clientId: string; clientSecret: string; project?: string }
  | { kind: "service"; email: string; key: string; keyId?: string; project?: string };

type Fields = Record<string, string | undefined>;

/** Reads the file that `hooks.gmail.credentials` names. */
export async function readCredentials(file: string | undefined): Promise<Credentials> {
  if (file === undefined)
    throw new GmailProblem(
      "no credentials: name the JSON file from Google Cloud with --credentials or hooks.gmail.credentials",
    );
  const wrong = (why: string): GmailProblem =>
    new GmailProblem(`the credentials file ${file} ${why}`);
  const text = await readFile(file, "utf8").catch(() => {
    throw wrong("cannot be read");
  });
  let value: Fields & { installed?: Fields; web?: Fields };
  try {
    value = JSON.parse(text) as typeof value;
  } catch {
    throw wrong("is not JSON");
  }
  const project = value.project_id ?? value.installed?.["project_id"];
  const known = project === undefined ? {} : { project };
  const { client_email: email, private_key: key, private_key_id: keyId } = value;
  if (value["type"] === "service_account" && email !== undefined && key !== undefined)
    return { kind: "service", email, key, ...(keyId === undefined ? {} : { keyId }), ...known };
  const { client_id: clientId, client_secret: clientSecret } = value.installed ?? {};
  if (clientId !== undefined && clientSecret !== undefined)
    return { kind: "installed", clientId, clientSecret, ...known };
  throw wrong(
    value.web
      ? "is of a web application: make an OAuth client of the type desktop app, at https://console.cloud.google.com/auth/clients"
      : "is neither an OAuth client for a desktop app nor a service account's key",
  );
}

const GOOGLE_TOKEN_URL = "https://oauth2.googleapis.com/token";

/** The package's own choice of fetch throws where nobody can catch it when a request is given up. */
const transport = (fetchImplementation: typeof fetch) => ({
  transporterOptions: { fetchImplementation },
});

async function serviceClient(
  { email, key, keyId }: Extract<Credentials, { kind: "service" }>,
  {
    scope,
    tokenUrl,
    subject,
    fetch,
  }: { scope: string; tokenUrl: string; subject?: string; fetch: typeof globalThis.fetch },
): Promise<JWT> {
  const { JWT } = await loadGoogleAuth();
  const client = new JWT({
    ...transport(fetch),
    email,
    key,
    scopes: [scope],
    ...(keyId === undefined ? {} : { keyId }),
    ...(subject === undefined ? {} : { subject }),
  });
  // The package has no setting for this address.
  client.transporter.interceptors.request.add({
    async resolved(options) {
      if (options.url.href === GOOGLE_TOKEN_URL) options.url = new URL(tokenUrl);
      return options;
    },
  });
  return client;
}

async function installedClient(
  { clientId, clientSecret }: Extract<Credentials, { kind: "installed" }>,
  { oauthAuth, oauthToken }: GmailConfig["endpoints"],
  fetch: typeof globalThis.fetch,
): Promise<OAuth2Client> {
  const { OAuth2Client } = await loadGoogleAuth();
  return new OAuth2Client({
    ...transport(fetch),
    clientId,
    clientSecret,
    endpoints: { oauth2AuthBaseUrl: oauthAuth, oauth2TokenUrl: oauthToken },
  });
}

/** The clients for what the config says; throws where the owner has not consented yet. */
export async function createClients(
  config: GmailConfig,
  credentials: Credentials,
  { dir, fetch }: { dir: string; fetch: typeof globalThis.fetch },
): Promise<Clients> {
  const { account = "", endpoints } = config;
  const tokenUrl = endpoints.oauthToken;
  if (credentials.kind === "service")
    return {
      gmail: await serviceClient(credentials, {
        scope: GMAIL_SCOPE,
        tokenUrl,
        subject: account,
        fetch,
      }),
      pubsub: await serviceClient(credentials, { scope: PUBSUB_SCOPE, tokenUrl, fetch }),
    };
  const grant = await readGrant(dir);
  if (grant?.account !== account || grant.clientId !== credentials.clientId)
    throw new GoogleError(
      `there is no grant for ${account}: run \`rouse webhooks gmail setup\``,
      "revoked",
    );
  const client = await installedClient(credentials, endpoints, fetch);
  client.setCredentials({ refresh_token: grant.refreshToken });
  return { gmail: client, pubsub: client };
}

const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'",
  "referrer-policy": "no-referrer",
  connection: "close",
};
const page = (text: string): string =>
  `<!doctype html><meta charset="utf-8"><title>Rouse</title><p>${text}</p>\n`;

/** Waits at the loopback address for the browser to come back with a code. Whoever comes with another state is sent away. */
function redirected(server: Server, state: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const stop = (): void =>
      reject(
        new GmailProblem("consent was not given in time: run the setup again and open the address"),
      );
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    server.on("request", (request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? "/", "http://127.0.0.1");
      const answer = (status: number, text: string): void =>
        void response.writeHead(status, PAGE_HEADERS).end(page(text));
      if (request.method !== "GET" || pathname !== "/")
        return answer(404, "There is nothing here.");
      if (searchParams.get("state") !== state)
        return answer(400, "This is not the answer that Rouse waits for.");
      const code = searchParams.get("code");
      if (code !== null) {
        answer(200, "Rouse has got the consent. You can close this page.");
        return resolve(code);
      }
      answer(200, "Consent was not given. You can close this page.");
      reject(new GmailProblem("consent was not given: run the setup again and allow both scopes"));
    });
  });
}

/** The time that the owner has to consent. */
const CONSENT_MS = 300_000;

/**
 * Asks the owner for consent in a browser (OAuth 2.0 for native apps: loopback redirect, PKCE).
 * @param show is given the address to open.
 */
export async function askForConsent(
  config: GmailConfig,
  credentials: Extract<Credentials, { kind: "installed" }>,
  {
    show,
    signal,
    fetch,
  }: { show: (url: string) => void; signal: AbortSignal; fetch: typeof globalThis.fetch },
): Promise<Grant> {
  const { account = "", endpoints } = config;
  const client = await installedClient(credentials, endpoints, fetch);
  const { CodeChallengeMethod } = await loadGoogleAuth();
  const { codeVerifier, codeChallenge = "" } = await client.generateCodeVerifierAsync();
  const state = randomBytes(24).toString("base64url");
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const redirectUri = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    const code = redirected(
      server,
      state,
      AbortSignal.any([signal, AbortSignal.timeout(CONSENT_MS)]),
    );
    show(
      client.generateAuthUrl({
        access_type: "offline",
        prompt: "consent",
        scope: [GMAIL_SCOPE, PUBSUB_SCOPE],
        login_hint: account,
        state,
        redirect_uri: redirectUri,
        code_challenge: codeChallenge,
        code_challenge_method: CodeChallengeMethod.S256,
      }),
    );
    const { tokens } = await client
      .getToken({ code: await code, codeVerifier, redirect_uri: redirectUri })
      .catch((error: unknown) =>
        Promise.reject(googleError(error, "exchanging the code", account)),
      );
    const missing = [GMAIL_SCOPE, PUBSUB_SCOPE].filter(
      (scope) => !(tokens.scope ?? "").split(" ").includes(scope),
    );
    if (missing.length > 0)
      throw new GmailProblem(
        `consent is missing for ${missing.join(" and ")}: run the setup again and tick every box`,
      );
    if (!tokens.refresh_token)
      throw new GmailProblem("Google gave no refresh token: run the setup again");
    return { account, clientId: credentials.clientId, refreshToken: tokens.refresh_token };
  } finally {
    server.close();
    server.closeAllConnections();
  }
}
