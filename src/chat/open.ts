import type { Failure } from "../core/errors.ts";
import type { LazyKnowledge } from "../knowledge/lazy.ts";
import { sessionId, type FencingToken, type RunError } from "../store/types.ts";
import type { ExecutorDeps } from "../turns/context.ts";
import { commitEnd } from "../turns/journal.ts";
import type { KnowledgeSearch } from "../turns/knowledge.ts";
import { createApiKeys, marksFor, type ApiKeys } from "./api-keys.ts";
import { createLiveTurn, getChatSession, type LiveTurn } from "./api-run.ts";
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
const STOPPING: Failure = {
  code: "draining",
  message: "the gateway is stopping; try again",
  retryAfterSeconds: 5,
};
const TOO_MANY: Failure = {
  code: "overloaded",
  message: "too many turns at the same time; try again",
  retryAfterSeconds: 2,
};

/** Ends the turns of gateways that are gone. What they have asked people is closed with them. */
async function endLeft(
  present: ReadonlySet<string>,
  { store, clock, questions }: ExecutorDeps,
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

/** Executes the turns of API users: immediately, and one after the other within a session. */
export function createChats(deps: ExecutorDeps): Chats {
  const { store, clock } = deps;
  const live = new Map<string, LiveTurn>();
  /** The last turn of each session that has one. */
  const tails = new Map<string, Promise<void>>();
  let draining = false;

  return {
    startTurn(request) {
      const context = deps.snapshot();
      if (draining) return { ok: false, failure: STOPPING };
      if (live.size >= context.config.platform.maxConcurrent)
        return { ok: false, failure: TOO_MANY };
      const turn = createLiveTurn(request, clock.now());
      const queue = sessionId(getChatSession(request, turn.runId));
      const before = tails.get(queue);
      // Loaded by the first turn: most gateways never see one.
      const done = import("./api-run.ts")
        .then(({ executeTurn }) => executeTurn(request, turn, before, deps, context))
        .finally(() => {
          live.delete(turn.runId);
          if (tails.get(queue) === done) tails.delete(queue);
        });
      turn.done = done;
      tails.set(queue, done);
      live.set(turn.runId, turn);
      return { ok: true, turn };
    },
    async cancel(runId) {
      const turn = live.get(runId);
      if (!turn) return undefined;
      turn.abort.abort("cancel");
      await turn.done;
      return store.runs.get(runId);
    },
    recover: (present, fencingToken) => endLeft(present, deps, fencingToken),
    async stop(drainMs) {
      draining = true;
      const all = Promise.all([...live.values()].map((turn) => turn.done));
      await Promise.race([all, clock.sleep(live.size === 0 ? 0 : drainMs)]);
      for (const turn of live.values()) turn.abort.abort("drain");
      await Promise.all([...live.values()].map((turn) => turn.done));
    },
  };
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
    chats: createChats({ ...context, documents }),
    earlierRuns: createEarlierRuns(context.store),
    documents,
  };
}
