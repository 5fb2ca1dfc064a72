import { RouseError } from "../../core/errors.ts";
import { StoredList, type StoredListDeps } from "../../store/stored-list.ts";
import type { Ms, Reads } from "../../store/types.ts";

/** What people have decided about a group of failures; none of it: the group is open. */
export interface GroupState {
  id: string;
  snoozedUntil?: Ms;
  resolved?: { at: Ms; version: number | null };
}

export const UNTIL =
  'write a time from now on such as "4h" or "2d", or a date such as "2026-01-31T08:00"';
export const GROUP_ACTIONS = ["snooze", "resolve", "reopen"] as const;

/** A change of a group. */
export interface GroupChange {
  action: (typeof GROUP_ACTIONS)[number];
  /** Of `snooze`. */
  until?: Ms | undefined;
}

export interface FailureStates {
  /**
   * Changes one group.
   * @param version the number of the config in use, which a resolve is of.
   * @throws RouseError `usage` if `until` is over.
   */
  change(id: string, wanted: GroupChange, version: number | null): Promise<void>;
}

/** Those that were changed last are kept. */
const MAX_STATES = 1000;
const VALUE = "failures.states";

/** Reads what people have done about groups of failures. */
export async function readStates(store: Reads): Promise<(id: string) => GroupState> {
  const list = ((await store.values.get(VALUE)) as readonly GroupState[] | undefined) ?? [];
  return (id) => list.find((one) => one.id === id) ?? { id };
}

function decide(
  { action, until }: GroupChange,
  version: number | null,
  now: Ms,
): Omit<GroupState, "id"> {
  if (action === "reopen") return {};
  if (action === "resolve") return { resolved: { at: now, version } };
  if (until !== undefined && until > now) return { snoozedUntil: until };
  const message = `until: ${until === undefined ? UNTIL : "name a time in the future"}`;
  throw new RouseError({ code: "usage", message });
}

/** Creates what changes the states of groups, one change at a time over all gateways of the store. */
export function createFailureStates(deps: StoredListDeps): FailureStates {
  const stored = new StoredList<GroupState>(VALUE, deps);
  return {
    change: (id, wanted, version) =>
      stored.change((list) => {
        const changed = { id, ...decide(wanted, version, deps.clock.now()) };
        const others = list.filter((one) => one.id !== id);
        return { list: [changed, ...others].slice(0, MAX_STATES), result: undefined };
      }),
  };
}
