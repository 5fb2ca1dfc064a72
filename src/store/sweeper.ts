import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Held, Ms, Store } from "./types.ts";

const SWEEP_MS = 600_000;
/** The time between two sweeps if bodies are kept only until their work is done: they must not stay much longer. */
const SOON_MS = 30_000;

/** Removes old records from time to time for as long as the lease is held. `settings` is read at each sweep. */
export async function sweepRegularly(
  { signal, fencingToken }: Held,
  options: { store: Store; clock: Clock; log: Logger; settings(): Parameters<Store["sweep"]>[1] },
): Promise<void> {
  const { store, clock, log, settings } = options;
  while (!signal.aborted) {
    const keep = settings();
    await store
      .sweep(clock.now(), keep, fencingToken)
      .catch((error: unknown) =>
        log.error({ err: safeError(error) }, "old records could not be removed; it is tried again"),
      );
    await clock.sleep(keep.bodies === 0 ? SOON_MS : SWEEP_MS, signal);
  }
}

/** Returns the time for which the oldest body has been kept beyond retention, in milliseconds; 0 if none has been. */
export async function getBodiesOverdue(
  store: Pick<Store, "oldestBody">,
  now: Ms,
  retention: Ms,
): Promise<Ms> {
  const oldest = await store.oldestBody(now);
  return oldest === undefined ? 0 : Math.max(0, now - oldest - retention);
}
