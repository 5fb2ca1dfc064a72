import { RouseError, safeError, type Failure } from "../../core/errors.ts";
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

/** An error as it goes to the other thread. */
interface ReplyError extends Failure {
  /** The words of the database about itself, which quote nothing. */
  reason: string;
}

export type ReplyMessage =
  | { id: number; ok: true; value: unknown }
  | { id: number; ok: false; error: ReplyError };

/** Ends the thread, once what was asked before is done. */
export const CLOSE = "close";

/** Converts an error to the answer that the other thread gets. */
export function errorReply(error: unknown): ReplyError {
  const { code, message, extra, issues }: Failure =
    error instanceof RouseError ? error : STORE_UNAVAILABLE;
  const cause = error instanceof RouseError && error.cause !== undefined ? error.cause : error;
  const { errstr } = cause as { errstr?: string };
  const reason = errstr ?? safeError(cause).code ?? safeError(cause).name;
  return { code, message, reason, ...(extra && { extra }), ...(issues && { issues }) };
}
