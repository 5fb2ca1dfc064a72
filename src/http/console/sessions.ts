import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { readMonotonic, toMonotonic, toWallTime, type Stopwatch } from "../../core/clock.ts";
import type { ConsoleMode } from "../../config/console-mode.ts";
import type { Failure } from "../../core/errors.ts";
import { temporaryName } from "../../core/replace-file.ts";
import { newToken, sha256Hex } from "../../core/secret.ts";

const LIFE_MS = 12 * 3_600_000;
const MAX_SESSIONS = 100;
/** The time for which a session may change files after the gateway token was shown. */
const PROVED_MS = 15 * 60_000;
const COOKIE = "rouse-console";

/** Browsers that have shown the gateway token. */
export interface ConsoleSessions {
  /** A new session: what goes into the cookie. The session of `cookies` ends. */
  open(cookies?: string): string;
  /** Returns true if the request's `Cookie` header holds a session that is still good. */
  has(cookies: string | undefined): boolean;
  /** Returns true if the token was shown for the session within the last 15 minutes. */
  isProved(cookies: string | undefined): boolean;
  close(cookies: string | undefined): void;
}

function readCookie(cookies: string | undefined): string | undefined {
  return new RegExp(`(?:^|;\\s*)${COOKIE}=([\\w-]+)`).exec(cookies ?? "")?.[1];
}

/** Opens what is kept of sessions: when each was opened, by the digest of its id. Entries of another form are left out. */
function readSessions(file: string): [string, number][] {
  try {
    const kept = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
    return Object.entries(kept).filter(
      (entry): entry is [string, number] => typeof entry[1] === "number",
    );
  } catch {
    // Without the file, or with one that cannot be read, browsers are asked for the token again.
    return [];
  }
}

/**
 * Keeps sessions in a file (mode 0600), so that a restart of the gateway ends none.
 * @param clock what ages them, and the time of day from which the next process goes on
 * @param tokens what signs in: with other tokens than those of the process before, all sessions are over
 */
export function createConsoleSessions(
  clock: Stopwatch,
  file: string,
  tokens: readonly string[],
): ConsoleSessions {
  // Kept as a digest, so that looking it up tells nothing about one that is nearly right.
  const toId = (cookie: string): string => sha256Hex([...tokens, cookie].join("\n"));
  const findId = (cookies: string | undefined): string | undefined => {
    const found = readCookie(cookies);
    return found === undefined ? undefined : toId(found);
  };
  /** When each was opened, by the digest of its id. */
  const sessions = new Map(
    readSessions(file)
      .filter(([, at]) => at <= clock.now())
      .map(([id, at]) => [id, toMonotonic(at, clock)]),
  );
  const keep = (): void => {
    const temporary = temporaryName(file);
    const kept = Object.fromEntries([...sessions].map(([id, at]) => [id, toWallTime(at, clock)]));
    try {
      writeFileSync(temporary, JSON.stringify(kept), { mode: 0o600 });
      renameSync(temporary, file);
    } catch {
      // On a disk that is full, sessions last as long as this process.
      rmSync(temporary, { force: true });
    }
  };
  const getAge = (cookies: string | undefined): number => {
    const id = findId(cookies);
    const opened = id === undefined ? undefined : sessions.get(id);
    return opened === undefined ? Infinity : readMonotonic(clock) - opened;
  };
  const close = (cookies: string | undefined): void => {
    const id = findId(cookies);
    if (id !== undefined && sessions.delete(id)) keep();
  };
  return {
    open(cookies) {
      close(cookies);
      const id = newToken();
      sessions.set(toId(id), readMonotonic(clock));
      if (sessions.size > MAX_SESSIONS) sessions.delete(sessions.keys().next().value as string);
      keep();
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
