import type { Ms, PastWait, RunChange, RunRecord } from "../store/types.ts";

/** Waits that a run keeps: the newest. */
const MAX_WAITS = 20;
/** Approvals that one wait names. */
const MAX_APPROVALS = 10;
/** A shorter wait in the queue is none: each run is taken from it. */
const MIN_QUEUED_MS = 1000;

type Wait = PastWait extends infer W ? (W extends PastWait ? Omit<W, "until"> : never) : never;

/** Returns what the record of a run says that it waits for; undefined if it is executed or has ended, or if that is not known. */
function findWait({
  status,
  parked,
  waiting,
  collect,
  waitSince,
  pausedAt,
  failures = 0,
  startedAt,
  createdAt,
}: RunRecord): Wait | undefined {
  switch (status) {
    case "waiting":
      return (
        waiting && {
          kind: "approval",
          approvalIds: waiting.approvalIds.slice(0, MAX_APPROVALS),
          since: waiting.since,
        }
      );
    case "collecting":
      return collect && { kind: "batch", since: collect.firstAt };
    case "parked":
      if (parked?.reason === "provider")
        return waitSince === undefined
          ? undefined
          : { kind: "model", of: parked.of, since: waitSince };
      return parked && pausedAt !== undefined
        ? { kind: "limit", scope: parked.scope, limit: parked.limit, since: pausedAt }
        : undefined;
    case "queued":
      if (waitSince !== undefined)
        return { kind: failures > 0 ? "delay" : "queue", since: waitSince };
      return startedAt === undefined ? { kind: "queue", since: createdAt } : undefined;
    default:
      return undefined;
  }
}

/**
 * Returns the change that records the wait of a run as over at `now`, for the commit that ends it. Empty if the run has not
 * waited: such a run is written as before.
 */
export function closeWait(run: RunRecord, now: Ms): Pick<RunChange, "waits" | "waitSince"> {
  const wait = findWait(run);
  const left = run.waitSince === undefined ? {} : { waitSince: null };
  if (!wait) return left;
  const { waits = [] } = run;
  // Of several approvals each decision lets the run continue: the rest of the wait begins there.
  const since = Math.max(wait.since, waits.at(-1)?.until ?? wait.since);
  if (now - since < (wait.kind === "queue" ? MIN_QUEUED_MS : 1)) return left;
  return { ...left, waits: [...waits, { ...wait, since, until: now }].slice(-MAX_WAITS) };
}

/** The waits of a run that are over, with the one that ends at `now`; empty if it has not waited. */
export function getEndedWaits(run: RunRecord, now: Ms): Pick<RunRecord, "waits"> {
  const { waits } = closeWait(run, now);
  return waits ? { waits } : {};
}

/**
 * Returns the change that records that a run waits from `now` on for its model, for another try or in the queue, and that its
 * wait before is over. A run that looks for the same model again has waited all the time.
 */
export function beginWait(
  run: RunRecord,
  now: Ms,
  of?: string,
): Pick<RunChange, "waits" | "waitSince"> {
  const isSame =
    of !== undefined &&
    run.status === "parked" &&
    run.parked?.reason === "provider" &&
    run.parked.of === of;
  return isSame && run.waitSince !== undefined ? {} : { ...closeWait(run, now), waitSince: now };
}
