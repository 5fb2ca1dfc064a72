import type { PluginContext } from "#plugin";
import type { TeamsConfig } from "./index.ts";

const SCOPE = "https://api.botframework.com/.default";
/** A token is renewed so long before it ends, so that none ends on its way. */
const SPARE_MS = 5 * 60_000;

/** Why there is no token: for good, or for now. `reason` quotes nothing that was sent. */
export class TokenError extends Error {
  readonly final: boolean;
  readonly afterMs: number | undefined;
  constructor(message: string, final: boolean, afterMs?: number) {
    super(message);
    this.final = final;
    this.afterMs = afterMs;
  }
}

/** The bot's token, asked for once and kept until shortly before it ends. */
export function createTokens({ config, fetch, clock }: PluginContext<TeamsConfig>) {
  let kept: { token: string; until: number } | undefined;

  const ask = async (signal: AbortSignal): Promise<string> => {
    const response = await fetch(`${config.loginUrl}/${encodeURIComponent(config.tenantId)}/oauth2/v2.0/token`, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({
        grant_type: "client_credentials",
        client_id: config.appId,
        client_secret: config.appSecret,
        scope: SCOPE,
      }),
      redirect: "manual",
      signal,
    });
    const body = (await response.json().catch(() => undefined)) as { access_token?: unknown; expires_in?: unknown } | undefined;
    if (!response.ok) {
      const reason = `Microsoft's sign-in answered ${response.status}`;
      if (response.status === 429 || response.status >= 500) throw new TokenError(reason, false, waitOf(response.headers));
      throw new TokenError(`${reason}: check channels.msteams.appId, appSecret and tenantId; a secret may have run out`, true);
    }
    if (typeof body?.access_token !== "string") throw new TokenError("Microsoft's sign-in gave no token", false);
    const lasts = Number(body.expires_in) * 1000 || 0;
    kept = { token: body.access_token, until: clock.now() + lasts - Math.min(SPARE_MS, lasts / 2) };
    return body.access_token;
  };

  return {
    async get(signal: AbortSignal): Promise<string> {
      return kept && clock.now() < kept.until ? kept.token : ask(signal);
    },
    /** Forgets a token that was refused, unless another took its place meanwhile. */
    forget(token: string): void {
      if (kept?.token === token) kept = undefined;
    },
    /** Asks anew, to see whether the credentials are good. */
    ask,
  };
}

/** What `createTokens` gives. */
export type Tokens = ReturnType<typeof createTokens>;

/** `Retry-After` in seconds. */
export function waitOf(headers: Headers): number | undefined {
  const seconds = headers.get("retry-after") ?? "";
  return /^\d{1,6}$/.test(seconds) ? Number(seconds) * 1000 : undefined;
}
