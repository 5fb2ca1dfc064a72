import { type Issue, RouseError, safeError } from "../../core/errors.ts";
import { STORE_UNAVAILABLE } from "../../store/types.ts";
import type { CatalogPlace } from "../catalog/catalog.ts";
import type { createWriter } from "../catalog/writer.ts";
import type { createReader } from "../index/reader.ts";

/** The calls that the thread of the documents answers. */
export type Calls = ReturnType<typeof createWriter> &
  Omit<Awaited<ReturnType<typeof createReader>>, "close">;

export interface WorkerSettings extends CatalogPlace {
  /** The path of the gateway's own index. */
  index: string;
}

export interface CallMessage {
  id: number;
  name: string;
  args: unknown[];
}

export type ReplyMessage =
  | { id: number; ok: true; value: unknown }
  | {
      id: number;
      ok: false;
      error: {
        code: string;
        message: string;
        issues?: Issue[];
        extra?: Record<string, unknown>;
        reason?: string;
      };
    };

/** Ends the thread, once what was asked before is done. */
export const CLOSE = "close";

/** An error as it goes to the other thread. `reason` is what the database says of itself, which quotes nothing. */
export function errorReply(error: unknown): Extract<ReplyMessage, { ok: false }>["error"] {
  const { code, message, extra, issues } =
    error instanceof RouseError ? error : new RouseError(STORE_UNAVAILABLE);
  const cause = error instanceof RouseError && error.cause !== undefined ? error.cause : error;
  const { errstr } = cause as { errstr?: string };
  const reason = errstr ?? safeError(cause).code ?? safeError(cause).name;
  return {
    code,
    message,
    reason,
    ...(extra === undefined ? {} : { extra }),
    ...(issues ? { issues } : {}),
  };
}
