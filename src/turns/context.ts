import type { PeopleParts } from "../people/open.ts";
import type { QueueParts } from "../queue/open.ts";
import type { PartContext } from "../store/context.ts";
import type { Collected } from "../store/types.ts";
import type { AttachmentDeps } from "./channel/attachments.ts";
import type { KnowledgeSearch } from "./knowledge.ts";
import type { Quarantine } from "../queue/worker.ts";
import type { ScheduleParts } from "./schedules/open.ts";
import type { ActionContext, CombinedAction, RunEnds, RunOperations } from "./types.ts";

/** The parts that runs of every kind are executed with. */
export interface ExecutorDeps extends PartContext, QueueParts, PeopleParts, ScheduleParts {
  /** The current snapshot; a turn keeps the one it began with. */
  snapshot(): ActionContext;
  runEnds: RunEnds;
  /** The documents that turns search. */
  documents: KnowledgeSearch;
  /** Which runs may be under way at the same time. Absent: all. */
  quarantine?: Quarantine;
}

/** The same for runs that are taken from the queue, and for what people do with them. */
export interface TurnDeps extends ExecutorDeps {
  /** The means to read the files of messages. */
  attachments: AttachmentDeps;
  quarantine: Quarantine;
  /** Cancels a run, whichever gateway executes it. */
  cancel: RunOperations["cancel"];
  /** Combines the events that a mapping has collected. */
  combine(mapping: string, events: readonly Collected[]): Promise<CombinedAction>;
}
