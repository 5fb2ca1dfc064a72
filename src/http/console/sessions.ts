import { readMonotonic, type Stopwatch } from "../../core/clock.ts";
import type { ConsoleMode } from "../../config/console-mode.ts";
import type { Failure } from "../../core/errors.ts";
import { newToken, sha256Hex } from "../../core/secret.ts";

const LIFE_MS = 12 * 3_600_000;
const MAX_SESSIONS = 100;
/** The time for which a session may change files after the gateway token was shown. */
const PROVED_MS = 15 * 60_000;
const COOKIE = "rouse-console";

const COOKIE_VALUE = new RegExp(`(?:^|;\\s*)${COOKIE}=([\\w-]+)`);

/** Creates the sessions of browsers that have shown the gateway token to this process; a restart ends them. */
export function createConsoleSessions(clock: Stopwatch) {
  /** When each was opened, in monotonic time, by the digest of its id: looking it up tells nothing about one that is nearly right. */
  const sessions = new Map<string, number>();
  const findId = (cookies: string | undefined): string =>
    sha256Hex(COOKIE_VALUE.exec(cookies ?? "")?.[1] ?? "");
  const getAge = (cookies: string | undefined): number =>
    readMonotonic(clock) - (sessions.get(findId(cookies)) ?? -Infinity);
  const close = (cookies: string | undefined): void => void sessions.delete(findId(cookies));
  return {
    /** A new session: what goes into the cookie. The session of `cookies` ends. */
    open(cookies?: string): string {
      close(cookies);
      const id = newToken();
      sessions.set(sha256Hex(id), readMonotonic(clock));
      if (sessions.size > MAX_SESSIONS) sessions.delete(sessions.keys().next().value as string);
      return id;
    },
    /** Returns true if the request's `Cookie` header holds a session that is still good. */
    has: (cookies: string | undefined): boolean => getAge(cookies) < LIFE_MS,
    /** Returns true if the token was shown for the session within the last 15 minutes. */
    isProved: (cookies: string | undefined): boolean => getAge(cookies) < PROVED_MS,
    close,
  };
}

/** The cookie's attributes. `secure` where the browser came by HTTPS. */
export function renderCookie(value: string, secure: boolean): string {
  const life = value === "" ? 0 : LIFE_MS / 1000;
  return `${COOKIE}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${life}${secure ? "; Secure" : ""}`;
}

/** Requests of the admin API that write files of the config or of its folders. */
const WRITES = /^\/admin\/v1\/(?:changes|fixtures|proposals|hooks\/secrets|store\/backup)$/;
/** Of these, those that write mappings in shadow or tests: nothing is started by them. */
const NOT_LIVE = /^\/admin\/v1\/(?:fixtures|proposals)$/;

const READ_ONLY: Failure = {
  code: "console_read_only",
  message:
    'this console may write no file (`gateway.console: "read"`): use the command line, or set `gateway.console: "edit"`',
};
const TOKEN_NEEDED: Failure = {
  code: "token_needed",
  message: "the gateway token was shown more than 15 minutes ago: show it again to change files",
};

/** Finds the reason that a session of the console may not make a request of the admin API; undefined if it may. Those who have the token may always. */
export function findSessionProblem(
  { method, path }: { method: string; path: string },
  { mode, isProved }: { mode: ConsoleMode; isProved: boolean },
): Failure | undefined {
  if (method === "GET" || !WRITES.test(path)) return undefined;
  if (mode !== "edit") return READ_ONLY;
  return isProved || NOT_LIVE.test(path) ? undefined : TOKEN_NEEDED;
}
