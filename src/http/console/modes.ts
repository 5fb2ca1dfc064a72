import type { ConsoleMode } from "../../config/console-mode.ts";
import type { Failure } from "../../core/errors.ts";

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

/** Why a session of the console may not make a request of the admin API; undefined if it may. Those who have the token may always. */
export function findSessionProblem(
  { method, path }: { method: string; path: string },
  { mode, isProved }: { mode: ConsoleMode; isProved: boolean },
): Failure | undefined {
  if (method === "GET" || !WRITES.test(path)) return undefined;
  if (mode !== "edit") return READ_ONLY;
  return isProved || NOT_LIVE.test(path) ? undefined : TOKEN_NEEDED;
}
