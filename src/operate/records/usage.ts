import { mergeUsage, NO_USAGE, type UsageQuery, type UsageSum } from "../../store/types.ts";
import type { AdminDeps } from "../types.ts";
import { iso } from "./views.ts";

export { USAGE_KEYS } from "../../store/types.ts";

/** Adds up what the runs that were created since then and have ended have used: as far back as the store keeps runs. */
export async function readUsage({ store }: AdminDeps, { by, since }: UsageQuery) {
  const rows = await store.runs.sumUsage({ by, since });
  const [total = { ...NO_USAGE, key: "total" }] = mergeUsage(
    rows.map((row) => ({ ...row, key: "total" })),
  );
  const order =
    by === "day"
      ? (a: UsageSum, b: UsageSum) => (a.key < b.key ? 1 : -1)
      : (a: UsageSum, b: UsageSum) =>
          (b.costUsd ?? 0) - (a.costUsd ?? 0) || b.outputTokens - a.outputTokens;
  return { by, since: iso(since), rows: rows.toSorted(order), total };
}
