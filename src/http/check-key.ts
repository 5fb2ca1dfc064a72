import type { Context } from "hono";
import type { ApiKey, ApiKeys } from "../chat/api-keys.ts";
import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import { createFailureLimiter, type createSharedCounts } from "../intake/callers.ts";
import type { Snapshot } from "../intake/types.ts";
import { getCaller } from "./request.ts";

const NO_KEY: Failure = {
  code: "unauthorized",
  message: "send an API key as `Authorization: Bearer <key>`; `rouse keys create` makes one",
};
const WRONG_KEY: Failure = {
  code: "unauthorized",
  message: "the API key is wrong, or was revoked",
};
const TOO_MANY: Failure = {
  code: "rate_limited",
  message: "too many wrong keys from this address; wait",
};

export interface KeyDeps {
  clock: Clock;
  keys: Pick<ApiKeys, "find">;
  snapshot(): Snapshot;
  sharedCounts?: ReturnType<typeof createSharedCounts>;
}

/** Finds the API key of a request, or why it has none. */
export type CheckKey = (
  c: Context,
) => Promise<{ ok: true; key: ApiKey } | { ok: false; failure: Failure }>;

/** Creates the check of API keys for one kind of routes, which counts wrong keys by address under `name`. */
export function createKeyCheck(
  name: string,
  { clock, keys, snapshot, sharedCounts }: KeyDeps,
): CheckKey {
  const limiter = createFailureLimiter(clock, sharedCounts?.(name));
  return async (c) => {
    // Only a header, and only this form of it: an address ends up in logs.
    const presented = /^bearer\s+(\S+)\s*$/i.exec(c.req.header("authorization") ?? "")?.[1];
    const key = presented === undefined ? undefined : await keys.find(presented);
    if (key) return { ok: true, key };
    const { address } = getCaller(c, c.req.header("x-forwarded-for"), snapshot());
    const wait = limiter.failed(address);
    if (wait > 0) return { ok: false, failure: { ...TOO_MANY, retryAfterSeconds: wait } };
    return { ok: false, failure: presented === undefined ? NO_KEY : WRONG_KEY };
  };
}
