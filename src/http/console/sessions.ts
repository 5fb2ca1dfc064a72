import { readMonotonic, type Stopwatch } from "../../core/clock.ts";
import { newToken, sha256Hex } from "../../core/secret.ts";

const LIFE_MS = 12 * 3_600_000;
const MAX_SESSIONS = 100;
/** How long after the gateway token was shown a session may change files. */
const PROVED_MS = 15 * 60_000;
const COOKIE = "rouse-console";

/** Browsers that have shown the gateway token. In memory only: a restart asks for it again. */
export interface ConsoleSessions {
  /** A new session: what goes into the cookie. The session of `cookies` ends. */
  open(cookies?: string): string;
  /** Whether the request's `Cookie` header holds a session that is still good. */
  has(cookies: string | undefined): boolean;
  /** Whether the token was shown for the session within the last 15 minutes. */
  isProved(cookies: string | undefined): boolean;
  close(cookies: string | undefined): void;
}

function findId(cookies: string | undefined): string | undefined {
  const found = new RegExp(`(?:^|;\\s*)${COOKIE}=([\\w-]+)`).exec(cookies ?? "")?.[1];
  // Kept as a digest, so that looking it up tells nothing about one that is nearly right.
  return found === undefined ? undefined : sha256Hex(found);
}

export function createConsoleSessions(clock: Stopwatch): ConsoleSessions {
  /** When each was opened, by the digest of its id. */
  const sessions = new Map<string, number>();
  const getAge = (cookies: string | undefined): number => {
    const id = findId(cookies);
    const opened = id === undefined ? undefined : sessions.get(id);
    return opened === undefined ? Infinity : readMonotonic(clock) - opened;
  };
  const close = (cookies: string | undefined): void => {
    const id = findId(cookies);
    if (id !== undefined) sessions.delete(id);
  };
  return {
    open(cookies) {
      close(cookies);
      const id = newToken();
      sessions.set(sha256Hex(id), readMonotonic(clock));
      if (sessions.size > MAX_SESSIONS) sessions.delete(sessions.keys().next().value as string);
      return id;
    },
    has(cookies) {
      if (getAge(cookies) < LIFE_MS) return true;
      close(cookies);
      return false;
    },
    isProved: (cookies) => getAge(cookies) < PROVED_MS,
    close,
  };
}

/** The cookie's attributes. `secure` where the browser came by HTTPS. */
export function renderCookie(value: string, secure: boolean): string {
  const life = value === "" ? 0 : LIFE_MS / 1000;
  return `${COOKIE}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${life}${secure ? "; Secure" : ""}`;
}
