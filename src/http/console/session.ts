import type { Clock } from "../../core/clock.ts";
import { newToken, sha256Hex } from "../../core/secret.ts";

const LIFE_MS = 12 * 3_600_000;
const MAX_SESSIONS = 100;
export const COOKIE = "rouse-console";

/** Browsers that have shown the gateway token. In memory only: a restart asks for it again. */
export interface ConsoleSessions {
  /** A new session: what goes into the cookie. */
  open(): string;
  /** Whether the request's `Cookie` header holds a session that is still good. */
  has(cookies: string | undefined): boolean;
  close(cookies: string | undefined): void;
}

function findId(cookies: string | undefined): string | undefined {
  const found = new RegExp(`(?:^|;\\s*)${COOKIE}=([\\w-]+)`).exec(cookies ?? "")?.[1];
  // Kept as a digest, so that looking it up tells nothing about one that is nearly right.
  return found === undefined ? undefined : sha256Hex(found);
}

export function createConsoleSessions(clock: Pick<Clock, "now">): ConsoleSessions {
  const sessions = new Map<string, number>();
  return {
    open() {
      const id = newToken();
      sessions.set(sha256Hex(id), clock.now() + LIFE_MS);
      if (sessions.size > MAX_SESSIONS) sessions.delete(sessions.keys().next().value as string);
      return id;
    },
    has(cookies) {
      const id = findId(cookies);
      const expires = id === undefined ? undefined : sessions.get(id);
      if (expires === undefined) return false;
      if (expires > clock.now()) return true;
      sessions.delete(id as string);
      return false;
    },
    close(cookies) {
      const id = findId(cookies);
      if (id !== undefined) sessions.delete(id);
    },
  };
}

/** The cookie's attributes. `secure` where the browser came by HTTPS. */
export function renderCookie(value: string, secure: boolean): string {
  const life = value === "" ? 0 : LIFE_MS / 1000;
  return `${COOKIE}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${life}${secure ? "; Secure" : ""}`;
}
