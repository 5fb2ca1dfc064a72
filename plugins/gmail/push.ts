import type { OAuth2Client } from "google-auth-library";
import { once, readBody, sleep } from "#channel-kit";
import { loadGoogleAuth } from "./auth.ts";
import type { GmailConfig } from "./config.ts";

const MAX_BYTES = 65_536;

const ALLOWED_ISSUERS = ["https://accounts.google.com", "accounts.google.com"];

const unauthorized = (): Response =>
  new Response(null, { status: 401, headers: { "www-authenticate": 'Bearer realm="rouse"' } });

/** Pushes that came. One that comes between two waits ends the second of them. */
export class Pushes {
  #came = new AbortController();

  add(): void {
    this.#came.abort();
  }

  /** Waits for the next one, or for so long. */
  async next(longestMs: number, signal: AbortSignal): Promise<void> {
    await sleep(longestMs, AbortSignal.any([signal, this.#came.signal]));
    this.#came = new AbortController();
  }
}

/** Answers pushes of Pub/Sub, once it is sure that they are. `notify` is called for each. */
export function createPushAnswerer(
  config: GmailConfig & { pushEndpoint: string },
  fetch: typeof globalThis.fetch,
  notify: () => void,
): (request: Request) => Promise<Response> {
  const getClient = once(async (): Promise<OAuth2Client> => {
    const { OAuth2Client } = await loadGoogleAuth();
    const transporterOptions = { fetchImplementation: fetch };
    return new OAuth2Client({
      transporterOptions,
      endpoints: { oauth2FederatedSignonPemCertsUrl: config.endpoints.certs },
      issuers: ALLOWED_ISSUERS,
    });
  });

  const verify = async (idToken: string): Promise<Response | undefined> => {
    const client = await getClient();
    try {
      // Kept as long as Google says: the check below finds them there.
      await client.getFederatedSignonCertsAsync();
    } catch {
      return new Response(null, { status: 503 });
    }
    const ticket = await client
      .verifyIdToken({ idToken, audience: config.pushEndpoint })
      .catch(() => undefined);
    const { email, email_verified: verified } = ticket?.getPayload() ?? {};
    const right =
      verified === true && (config.pushAccount === undefined || email === config.pushAccount);
    return right ? undefined : unauthorized();
  };

  return async (request) => {
    if (!new URL(request.url).pathname.endsWith("/push"))
      return new Response(null, { status: 404 });
    if (request.method !== "POST")
      return new Response(null, { status: 405, headers: { allow: "POST" } });
    const token = /^Bearer ([\w-]+\.[\w-]+\.[\w-]+)$/i.exec(
      request.headers.get("authorization") ?? "",
    )?.[1];
    if (token === undefined || token.length > 8192) return unauthorized();
    const refused = await verify(token);
    if (refused) return refused;
    // The body is not needed: the mailbox's history has what is new.
    if (!(await readBody(request, MAX_BYTES))) return new Response(null, { status: 413 });
    notify();
    return new Response(null, { status: 204 });
  };
}
