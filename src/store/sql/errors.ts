import { RouseError, safeError, type Failure, type Issue } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { Ms } from "../records.ts";
import type { StoreStatus } from "../types.ts";

/** A disk that is full, or a database that is away, fails every commit: one line in so long is enough. */
const LOG_EVERY_MS: Ms = 10_000;

/** Refuses a commit that adds a record which is there already. */
export const ID_TAKEN: Failure = {
  code: "internal",
  message: "the store refused a record whose id it holds already",
};

/** Refuses a commit that decides an approval which is not there, or which has a decision already. */
export const NOT_OPEN: Failure = {
  code: "internal",
  message: "the store refused a decision: the approval is not open",
};

/** Refuses a commit that changes a run which another commit has changed since it was read. */
export const RUN_CHANGED: Failure = {
  code: "internal",
  message: "the store refused a change: the run has changed since it was read",
};

export const isRunChanged = (error: unknown): boolean =>
  safeError(error).message === RUN_CHANGED.message;

/** The error for a `store.url` that cannot be used. `transient`: the same URL may work later. */
export function urlError(
  message: string,
  { transient = false, cause }: { transient?: boolean; cause?: unknown } = {},
): RouseError {
  const issue: Issue = { path: "store.url", message, ...(transient && { transient: true }) };
  const details = cause === undefined ? undefined : { cause };
  return new RouseError(
    { code: "config_invalid", message: `store.url: ${message}`, issues: [issue] },
    details,
  );
}

/**
 * Checks that a connection which cannot migrate can read a store.
 * @throws RouseError `not_found` if nothing was stored yet, `config_invalid` if the schema is not this program's.
 */
export function checkReadable({
  where,
  schema,
  known,
}: Pick<StoreStatus, "where" | "schema" | "known">): void {
  if (schema === 0)
    throw new RouseError({
      code: "not_found",
      message: `no events are recorded yet: there is no store at ${where}`,
    });
  if (schema < known)
    throw urlError(
      `${where} has schema ${schema}, and this program reads ${known}: run \`rouse store --migrate\`, or start the gateway`,
    );
  if (schema > known)
    throw urlError(
      `${where} has schema ${schema} of a newer version of the program, and this one reads ${known}: use that version`,
    );
}

/** Logs commits that failed, now and then. `describe` returns what the database says of one; it must quote nothing. */
export function createFailureLog(
  log: Logger,
  describe: (error: unknown) => object,
): (error: unknown) => void {
  let last = -Infinity;
  return (error) => {
    if (performance.now() - last < LOG_EVERY_MS) return;
    last = performance.now();
    log.error({ err: safeError(error), ...describe(error) }, "the store could not commit");
  };
}
