import { newId } from "../../core/ids.ts";
import { StoredList, type StoredListDeps } from "../../store/stored-list.ts";
import type { AskedSchedule, Ms } from "../../store/types.ts";
import type { Trigger } from "../../vocabulary/schedule-times.ts";

/** A schedule that an agent has proposed and a person has approved. */
export interface ApprovedSchedule {
  id: string;
  agentId: string;
  trigger: Trigger;
  prompt: string;
  /** True if the agent had text from outside in view when it wrote the prompt. */
  outside: boolean;
  deliver: boolean;
  /** Absent for one of the owner's main session, whose answers go where the owner is. */
  asked?: AskedSchedule;
  /** The tool call, which makes no second schedule if it is repeated. */
  callId: string;
  runId: string;
  /** The person who approved. */
  by: string;
  createdAt: Ms;
}

/**
 * The schedules that agents have proposed. They are in the store and not in the config, as the rules of approvals are: a config
 * file may be read-only or under version control, and all gateways on one database need the same schedules.
 */
export type ApprovedSchedules = ReturnType<typeof createApprovedSchedules>;

/** Creates the list of schedules that a store keeps. `changed` is called when a schedule was added or removed. */
export function createApprovedSchedules(deps: StoredListDeps, changed: () => void) {
  const stored = new StoredList<ApprovedSchedule>("schedules.approved", deps);
  return {
    list: () => stored.read(),
    add: (schedule: Omit<ApprovedSchedule, "id" | "createdAt">) =>
      stored
        .change<ApprovedSchedule>((known) => {
          const same = known.find(({ callId }) => callId === schedule.callId);
          if (same) return { result: same };
          const createdAt = deps.clock.now();
          const added = { ...schedule, id: newId("sch", createdAt), createdAt };
          return { list: [...known, added], result: added };
        })
        .finally(changed),
    /** False if there is no such schedule. */
    remove: (agentId: string, id: string) =>
      stored
        .remove((schedule) => schedule.id === id && schedule.agentId === agentId)
        .finally(changed),
  };
}
