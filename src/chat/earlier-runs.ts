import { findTurn } from "../runs/session-history.ts";
import type { RunRecord, Store } from "../store/types.ts";

/** Whose runs: those of a key, of one of its agents. */
export interface RunOwner {
  keyId: string;
  agentId: string;
}

/** What an API's user may refer to of earlier turns. Runs of another key or agent are not there. */
export interface EarlierRuns {
  /** Returns the reply of a run. */
  getReply(runId: string, owner: RunOwner): Promise<string | undefined>;
  /** Returns a run whose turn is kept in its session, so that another turn can follow it. */
  findKept(runId: string, owner: RunOwner): Promise<RunRecord | undefined>;
}

export function createEarlierRuns(store: Pick<Store, "get" | "list">): EarlierRuns {
  const find = async (runId: string, { keyId, agentId }: RunOwner): Promise<RunRecord | undefined> => {
    const run = await store.get("run", runId);
    return run?.kind === "api" && run.spec.session.key.startsWith(`api:${keyId}:${agentId}:`) ? run : undefined;
  };
  return {
    getReply: async (runId, owner) => (await find(runId, owner))?.reply,
    async findKept(runId, owner) {
      const run = await find(runId, owner);
      return run && (await findTurn(store, run.spec.session, runId)) ? run : undefined;
    },
  };
}
