import type { Ms, ParkedByLimit, Store } from "../store/types.ts";
import { toLimitKey } from "./limit-text.ts";

/** Runs whose reason is written again together: the newest, which are those that people look at. */
const MAX_RUNS = 500;

/**
 * Keeps the reasons of parked runs true: what holds a mapping's runs back may be another limit than the one by which they were
 * parked. Writes only when that has changed. `explain` says why each parked run waits, the newest first.
 */
export function createReasons(store: Pick<Store, "list" | "commit">) {
  const known = new Map<string, string>();
  return async (
    reasons: ReadonlyMap<string, ParkedByLimit>,
    now: Ms,
    explain: (mapping: string | undefined) => ParkedByLimit | undefined,
  ): Promise<void> => {
    for (const mapping of known.keys()) if (!reasons.has(mapping)) known.delete(mapping);
    const changed = new Map(
      [...reasons].filter(([mapping, reason]) => known.get(mapping) !== toLimitKey(reason)),
    );
    if (changed.size === 0) return;
    const runs = await store.list("runs", { status: "parked", limit: MAX_RUNS });
    const wrong = runs.flatMap(({ id, mapping, parked }) => {
      if (!parked || parked.reason === "provider") return [];
      const reason = explain(mapping);
      if (!reason || !changed.has(mapping ?? "")) return [];
      return toLimitKey(parked) === toLimitKey(reason) && (parked.until ?? Infinity) > now
        ? []
        : [{ id, reason }];
    });
    if (wrong.length > 0)
      await store.commit((tx) =>
        wrong.forEach(({ id, reason }) => tx.update("run", id, { parked: reason })),
      );
    for (const [mapping, reason] of changed) known.set(mapping, toLimitKey(reason));
  };
}
