import { safeError } from "../core/errors.ts";
import type { Ms, ParkedByLimit } from "../store/types.ts";
import { buildNotice, toLimitKey } from "./limit-text.ts";
import type { AdmissionDeps } from "./types.ts";

/** The main session hears of a limit at most so often. */
const NOTICE_MS = 3_600_000;

/** Tells the main session of limits that hold runs back, each once an hour: all gateways give the notice the same id. */
export function createNotices({
  store,
  log,
  context,
}: Pick<AdmissionDeps, "store" | "log" | "context">) {
  const notifiedAt = new Map<string, Ms>();
  return (parked: ParkedByLimit, now: Ms): void => {
    if (now - (notifiedAt.get(toLimitKey(parked)) ?? 0) < NOTICE_MS) return;
    notifiedAt.set(toLimitKey(parked), now);
    log.warn({ scope: parked.scope, limit: parked.limit }, "a limit is reached: runs are parked");
    const id = `sev_limit:${toLimitKey(parked)}:${Math.floor(now / NOTICE_MS)}`;
    const notice = buildNotice(parked, context().budgets.all, context().agents.default.id, now);
    store
      .commit((tx) => tx.add("systemEvent", { ...notice, id }))
      .catch((error: unknown) =>
        log.error({ err: safeError(error) }, "the main session could not be notified of a limit"),
      );
  };
}
