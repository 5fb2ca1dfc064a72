import type { LazyKnowledge } from "../knowledge/open.ts";
import type { FencingToken, RunError } from "../store/types.ts";
import type { ExecutorDeps } from "../turns/context.ts";
import { commitEnd } from "../turns/journal.ts";
import type { KnowledgeSearch } from "../turns/knowledge.ts";
import { createApiKeys, marksFor, type ApiKeys } from "./api-keys.ts";
import { createChats } from "./api-run.ts";
import { createEarlierRuns, type EarlierRuns } from "./history.ts";
import type { Chats } from "./types.ts";

/** The parts that users of the API have. */
export interface ChatParts {
  keys: ApiKeys;
  /** Their turns, which are not queued, since a person waits for them. */
  chats: Chats;
  earlierRuns: EarlierRuns;
  /** The documents that turns search: an agent finds what its users have uploaded for it. */
  documents: KnowledgeSearch;
}

interface ChatContext extends Omit<ExecutorDeps, "documents"> {
  knowledge: LazyKnowledge;
}

const CRASHED: RunError = {
  code: "crashed",
  message: "the gateway ended while the turn was under way",
};
const MAX_RECOVERED = 1000;

/** Ends the turns of gateways that are gone. What they have asked people is closed with them. */
async function endLeft(
  present: ReadonlySet<string>,
  { store, clock, questions }: Pick<ExecutorDeps, "store" | "clock" | "questions">,
  held?: FencingToken,
): Promise<void> {
  const now = clock.now();
  const change = { status: "failed", error: CRASHED, endedAt: now, hold: null } as const;
  const counts = await store.counts();
  for (const status of ["running", "queued", "waiting"] as const) {
    // Runs are not listed by their state: looking for none would look at all.
    if ((counts[`runs.${status}`] ?? 0) === 0) continue;
    const runs = await store.runs.list({ status, limit: MAX_RECOVERED });
    const cut = runs.filter(({ kind, gateway }) => kind === "api" && !present.has(gateway ?? ""));
    for (const run of cut)
      await commitEnd(run, (tx) => tx.runs.update(run.id, change), {
        store,
        now,
        held,
        by: "gateway",
        questions,
      });
  }
}

/** The documents as a turn sees them: those that its agent may search. */
function knowledgeFor(
  knowledge: Pick<LazyKnowledge, "search" | "has" | "hasAny">,
  keys: Pick<ApiKeys, "list">,
): KnowledgeSearch {
  return {
    hasAny: knowledge.hasAny,
    has: async ({ tenant, agentId }) =>
      knowledge.has({ tenant, agentIds: await marksFor([agentId], tenant, keys) }),
    search: async ({ agentId, ...query }) =>
      knowledge.search({ ...query, agentIds: await marksFor([agentId], query.tenant, keys) }),
  };
}

/** Creates what users of the API have, and starts nothing. */
export function openChats(context: ChatContext): ChatParts {
  const keys = createApiKeys(context);
  const documents = knowledgeFor(context.knowledge, keys);
  return {
    keys,
    chats: {
      ...createChats({ ...context, documents }),
      recover: (present, fencingToken) => endLeft(present, context, fencingToken),
    },
    earlierRuns: createEarlierRuns(context.store),
    documents,
  };
}
