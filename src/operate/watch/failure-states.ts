import { StoredList, type StoredListDeps } from "../../store/stored-list.ts";
import type { Ms, Reads } from "../../store/types.ts";

/** A group of failures that a person has resolved. */
export interface GroupState {
  id: string;
  resolvedAt: Ms;
}

const VALUE = "failures.states";

export type FailureStates = StoredList<GroupState>;

/** Creates the states of groups. One change is made at a time, over all gateways of the store. */
export const createFailureStates = (deps: StoredListDeps): FailureStates =>
  new StoredList<GroupState>(VALUE, deps);

/** Reads the states of groups. */
export const readStates = async (store: Reads): Promise<readonly GroupState[]> =>
  ((await store.values.get(VALUE)) as readonly GroupState[] | undefined) ?? [];
