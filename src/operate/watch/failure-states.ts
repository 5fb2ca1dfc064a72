import { RouseError } from "../../core/errors.ts";
import { StoredList, type StoredListDeps } from "../../store/stored-list.ts";
import type { Ms, Reads } from "../../store/types.ts";

/** What people have decided about a group of failures. */
export interface GroupDecision {
  assignee?: string;
  snoozedUntil?: Ms;
  resolved?: { at: Ms; version: number | null };
}

export interface GroupState {
  id: string;
  /** Counts the changes. */
  revision: number;
  decided: GroupDecision;
  /** What was decided before: an undo puts it back. Absent after an undo. */
  before?: GroupDecision;
}

export const UNTIL =
  'write a time from now on such as "4h" or "2d", or a date such as "2026-01-31T08:00"';
export const GROUP_ACTIONS = ["assign", "snooze", "resolve", "reopen", "undo"] as const;

/** A change of a group. `undo` takes the last one back. */
export interface GroupChange {
  action: (typeof GROUP_ACTIONS)[number];
  /** Of `assign`. Null: no one. */
  assignee?: string | null | undefined;
  /** Of `snooze`. */
  until?: Ms | undefined;
  /** Of `resolve`: the number of the config that resolved it. */
  version?: number | null | undefined;
}

export interface FailureStates {
  /**
   * Changes one group; with `revision` only if it still has this one.
   * @throws RouseError `conflict`, or `usage` if there is nothing to undo or `until` is over.
   */
  change(id: string, wanted: GroupChange, revision: number | undefined): Promise<void>;
}

/** Those that were changed last are kept. */
const MAX_STATES = 1000;
const VALUE = "failures.states";

const findState = (list: readonly GroupState[], id: string): GroupState =>
  list.find((one) => one.id === id) ?? { id, revision: 0, decided: {} };

/** Reads what people have done about groups of failures. */
export async function readStates(store: Reads): Promise<(id: string) => GroupState> {
  const list = ((await store.values.get(VALUE)) as readonly GroupState[] | undefined) ?? [];
  return (id) => findState(list, id);
}

function decide(
  { decided, before }: Pick<GroupState, "decided" | "before">,
  wanted: GroupChange,
  now: Ms,
): GroupDecision {
  const { assignee, ...rest } = decided;
  const assigned = assignee === undefined ? {} : { assignee };
  switch (wanted.action) {
    case "assign":
      return typeof wanted.assignee === "string" ? { ...rest, assignee: wanted.assignee } : rest;
    case "snooze":
      if (wanted.until === undefined || wanted.until <= now)
        throw new RouseError({
          code: "usage",
          message: `until: ${wanted.until === undefined ? UNTIL : "name a time in the future"}`,
        });
      return { ...assigned, snoozedUntil: wanted.until };
    case "resolve":
      return { ...assigned, resolved: { at: now, version: wanted.version ?? null } };
    case "undo":
      if (!before)
        throw new RouseError({
          code: "usage",
          message: "the group has no change that could be undone",
        });
      return before;
    default:
      return assigned;
  }
}

/** Says what became of a group that someone saw otherwise. */
function toConflict({ assignee, snoozedUntil = 0, resolved }: GroupDecision, now: Ms): RouseError {
  const snoozed =
    snoozedUntil > now ? `snoozed until ${new Date(snoozedUntil).toISOString()}` : "open";
  const state = resolved
    ? `resolved${resolved.version === null ? "" : ` in config version ${resolved.version}`}`
    : snoozed;
  return new RouseError({
    code: "conflict",
    message: `someone else has changed this group of failures: it is now ${state}, and assigned to ${assignee ?? "no one"}. Look at it, then make your change again`,
  });
}

/** Creates what changes the states of groups, one change at a time over all gateways of the store. */
export function createFailureStates(deps: StoredListDeps): FailureStates {
  const stored = new StoredList<GroupState>(VALUE, deps);
  return {
    change: (id, wanted, revision) =>
      stored.change((list) => {
        const now = deps.clock.now();
        const state = findState(list, id);
        if (revision !== undefined && revision !== state.revision)
          throw toConflict(state.decided, now);
        const changed: GroupState = {
          id,
          revision: state.revision + 1,
          decided: decide(state, wanted, now),
        };
        if (wanted.action !== "undo") changed.before = state.decided;
        const others = list.filter((one) => one.id !== id);
        return { list: [changed, ...others].slice(0, MAX_STATES), result: undefined };
      }),
  };
}
