import type { CodeError } from "../core/debug.ts";

/** The message quotes no value. */
export type Evaluated = { ok: true; value: unknown } | { ok: false; message: string };
/**
 * The same with why it failed, for the operator alone: that may quote values. `isTooLong`: with a shorter input it may not
 * fail.
 */
export type Explained = Evaluated & { error?: CodeError; isTooLong?: true };
