import { openChats } from "../chat/open.ts";
import { openDelivery } from "../delivery/open.ts";
import { combineEvents } from "../intake/resolve.ts";
import { openKnowledge } from "../knowledge/open.ts";
import { openPeople } from "../people/open.ts";
import { openQueue } from "../queue/open.ts";
import { createRunEnds } from "../turns/end-run.ts";
import { openTurns } from "../turns/open.ts";
import { openSchedules } from "../turns/schedules/open.ts";
import type { Resources } from "./resources.ts";

/** Everything that executes accepted work. */
export type Workers = ReturnType<typeof createWorkers>;

/** Creates the workers, each from what stands above it, and starts none of them. */
export function createWorkers(resources: Resources) {
  const { metrics, snapshot } = resources;
  const queue = openQueue(resources);
  const knowledge = openKnowledge({ ...resources, ...queue });
  const people = openPeople({ ...resources, ...knowledge });
  const delivery = openDelivery({ ...resources, ...queue });
  const schedules = openSchedules(resources);
  const runEnds = createRunEnds(resources);
  const shared = { ...resources, ...queue, ...knowledge, ...people, ...schedules, runEnds };
  const chats = openChats(shared);
  const turns = openTurns({
    ...shared,
    ...delivery,
    ...chats,
    combine: (mapping, events) => combineEvents(mapping, events, snapshot()),
  });
  metrics.watchMcpServers(() => snapshot().runtime.mcpServers());
  return {
    ...queue,
    ...knowledge,
    ...people,
    ...delivery,
    ...schedules,
    ...chats,
    ...turns,
    runEnds,
  };
}
