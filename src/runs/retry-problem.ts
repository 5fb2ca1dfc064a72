import type { Failure } from "../core/errors.ts";
import { ENDED, type RunRecord } from "../store/types.ts";

/** Returns why a run cannot be started again; undefined if it can. */
export function findRetryProblem({
  kind,
  status,
}: Pick<RunRecord, "kind" | "status">): Failure | undefined {
  if (kind !== "hook" && kind !== "schedule")
    return {
      code: "not_retryable",
      message:
        "only runs of hooks and schedules can be retried; a heartbeat's events stay queued by themselves",
    };
  if (!ENDED.includes(status) || status === "succeeded")
    return {
      code: "not_retryable",
      message: `only a run that failed can be retried; this one is ${status}`,
    };
  return undefined;
}
