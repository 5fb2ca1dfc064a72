import { StoredList, type StoredListDeps } from "../../store/stored-list.ts";
import type { Ms, Reads } from "../../store/types.ts";

/** The decision of people about a group of failures; none: the group is open. */
export interface GroupState {
  id: string;
  snoozedUntil?: Ms;
  /** `version`: the number of the config that was in use. */
  resolved?: { at: Ms; version: number | null };
}

const VALUE = "failures.states";

export type FailureStates = StoredList<GroupState>;

/** Creates the states of groups. One change is made at a time, over all gateways of the store. */
export const createFailureStates = (deps: StoredListDeps): FailureStates =>
  new StoredList<GroupState>(VALUE, deps);

/** Reads the states of groups. */
export const readStates = async (store: Reads): Promise<readonly GroupState[]> =>
  ((await store.values.get(VALUE)) as readonly GroupState[] | undefined) ?? [];
