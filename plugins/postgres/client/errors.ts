import { ID_TAKEN, RouseError, STORE_UNAVAILABLE } from "#store-kit";

/** The code that PostgreSQL gives a failed statement (five characters), where it was PostgreSQL that failed it. */
export function sqlState(error: unknown): string | undefined {
  const { code, severity } = ((error instanceof RouseError ? error.cause : error) ?? {}) as {
    code?: unknown;
    severity?: unknown;
  };
  return typeof code === "string" && code.length === 5 && severity !== undefined ? code : undefined;
}

/** A record whose id, or key, is there already. */
export const isConflict = (error: unknown): boolean => sqlState(error) === "23505";

/** Two transactions were in each other's way, and PostgreSQL ended this one: the same again may go through. */
export const isClash = (error: unknown): boolean =>
  ["40001", "40P01"].includes(sqlState(error) ?? "");

/** A lock was not free for as long as the statement waits for one. */
export const isLocked = (error: unknown): boolean => sqlState(error) === "55P03";

/** Returns whether PostgreSQL rejects the statement itself, and would reject it again. */
export const isRefused = (error: unknown): boolean =>
  /^(?:2[123]|42|54)/.test(sqlState(error) ?? "");

/** The client's errors as ours, with the cause kept. Their messages may quote values: they are shown nowhere. */
export function storeError(error: unknown): RouseError {
  if (error instanceof RouseError) return error;
  if (isConflict(error)) return new RouseError(ID_TAKEN, { cause: error });
  if (isRefused(error))
    return new RouseError(
      { code: "internal", message: "the store refused a record" },
      { cause: error },
    );
  return new RouseError(STORE_UNAVAILABLE, { cause: error });
}
