import { safeError } from "../core/errors.ts";
import type { Ms, Parked } from "../store/types.ts";
import { buildNotice, toLimitKey } from "./limit-text.ts";
import { HOUR_MS } from "./policy.ts";
import type { AdmissionDeps } from "./types.ts";

/** The key of the stored times at which limits were notified of. */
const NOTIFIED_AT = "limits.told";

/** The runs that each limit holds back, and when the main session was notified of it last. */
export class HeldRuns {
  readonly #deps: AdmissionDeps;
  readonly #runs = new Map<string, Set<string>>();
  #notifiedAt: Record<string, Ms> = {};

  constructor(deps: AdmissionDeps) {
    this.#deps = deps;
  }

  /** Reads when the main session was notified of limits. */
  async load(): Promise<void> {
    this.#notifiedAt = ((await this.#deps.store.get("value", NOTIFIED_AT)) as Record<string, Ms> | undefined) ?? {};
  }

  /** Adds a run that is held back. Returns all that its limit holds back. */
  add(runId: string, parked: Parked): ReadonlySet<string> {
    const runs = this.#runs.get(toLimitKey(parked)) ?? new Set();
    this.#runs.set(toLimitKey(parked), runs.add(runId));
    return runs;
  }

  /** Adds a run that is held back. The main session hears of the first one that a limit holds back, at most once an hour. */
  hold(runId: string, parked: Parked, now: Ms): void {
    const { log } = this.#deps;
    const isFirst = this.add(runId, parked).size === 1 && now - (this.#notifiedAt[toLimitKey(parked)] ?? 0) >= HOUR_MS;
    if (!isFirst) return;
    log.warn({ scope: parked.scope, limit: parked.limit }, "a limit is reached: runs are parked");
    this.#notify(parked, now).catch((error: unknown) =>
      log.error({ err: safeError(error) }, "the main session could not be notified of a limit"),
    );
  }

  delete(runId: string): void {
    for (const runs of this.#runs.values()) runs.delete(runId);
  }

  clear(): void {
    this.#runs.clear();
  }

  async #notify(parked: Parked, now: Ms): Promise<void> {
    const { store, context } = this.#deps;
    this.#notifiedAt = { ...this.#notifiedAt, [toLimitKey(parked)]: now };
    const notice = buildNotice(parked, context().budgets.all, context().agents.default.id, now);
    await store.commit((tx) => {
      tx.set("value", NOTIFIED_AT, this.#notifiedAt);
      tx.add("systemEvent", notice);
    });
  }
}
