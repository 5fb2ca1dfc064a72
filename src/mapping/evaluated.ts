import type { CodeError } from "../core/debug.ts";

/** The message quotes no value. `isTooLong`: with a shorter input it may not fail. */
export type Evaluated =
  | { ok: true; value: unknown }
  | { ok: false; message: string; isTooLong?: true };
/** The same with why it failed, for the operator alone: that may quote values. */
export type Explained = Evaluated & { error?: CodeError };
