import { RouseError, safeError } from "../../core/errors.ts";
import { STORE_UNAVAILABLE } from "../../store/types.ts";
import type { ReplyMessage } from "./protocol.ts";

/** An error as it goes to the other thread. `reason` is what the database says of itself, which quotes nothing. */
export function errorReply(error: unknown): Extract<ReplyMessage, { ok: false }>["error"] {
  const { code, message, extra, issues } = error instanceof RouseError ? error : new RouseError(STORE_UNAVAILABLE);
  const cause = error instanceof RouseError && error.cause !== undefined ? error.cause : error;
  const { errstr } = cause as { errstr?: string };
  const reason = errstr ?? safeError(cause).code ?? safeError(cause).name;
  return { code, message, reason, ...(extra === undefined ? {} : { extra }), ...(issues ? { issues } : {}) };
}
