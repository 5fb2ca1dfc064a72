import type { ChatEnd } from "./types.ts";
import { findTurn } from "../runs/session-history.ts";
import type { RunError, RunRecord, StepRecord, Store } from "../store/types.ts";

/** Whose runs: those of a key, of one of its agents. */
export interface RunOwner {
  keyId: string;
  agentId: string;
}

/** A response that can be read again. */
export interface StoredResponse extends Pick<RunRecord, "createdAt" | "status"> {
  runId: string;
  agentId: string;
  /** The fields of its request that it repeats. */
  echo: Readonly<Record<string, unknown>>;
  /** Undefined if the turn has no answer. */
  end: Omit<Extract<ChatEnd, { ok: true }>, "ok"> | undefined;
  error: Pick<RunError, "code" | "message"> | undefined;
}

function toStoredResponse({
  id,
  createdAt,
  status,
  spec,
  reply,
  answer,
  usage,
  error,
}: RunRecord): StoredResponse | undefined {
  if (!spec.response) return undefined;
  const end = answer && { ...answer, text: reply ?? "", usage: usage ?? {} };
  return {
    runId: id,
    agentId: spec.session.agentId,
    createdAt,
    status,
    echo: spec.response,
    end,
    error,
  };
}

/** What an API's user may refer to of earlier turns. Runs of another key or agent are not there. */
export interface EarlierRuns {
  /** Returns the reply of a run. */
  getReply(runId: string, owner: RunOwner): Promise<string | undefined>;
  /** Returns a run whose turn is kept in its session, so that another turn can follow it. */
  findKept(runId: string, owner: RunOwner): Promise<RunRecord | undefined>;
  /** Returns the steps of a run; undefined if there are none, or their content is no longer kept. */
  getSteps(runId: string, owner: RunOwner): Promise<readonly StepRecord[] | undefined>;
  /** Returns a response that can be read again, of any agent of the key. */
  findResponse(runId: string, keyId: string): Promise<StoredResponse | undefined>;
}

export function createEarlierRuns(store: Pick<Store, "get" | "list">): EarlierRuns {
  const findOfKey = async (runId: string, keyId: string): Promise<RunRecord | undefined> => {
    const run = await store.get("run", runId);
    return run?.kind === "api" &&
      run.spec.session.key.startsWith(`api:${keyId}:${run.spec.session.agentId}:`)
      ? run
      : undefined;
  };
  const find = async (
    runId: string,
    { keyId, agentId }: RunOwner,
  ): Promise<RunRecord | undefined> => {
    const run = await findOfKey(runId, keyId);
    return run?.spec.session.agentId === agentId ? run : undefined;
  };
  return {
    getReply: async (runId, owner) => (await find(runId, owner))?.reply,
    async findKept(runId, owner) {
      const run = await find(runId, owner);
      return run && (await findTurn(store, run.spec.session, runId)) ? run : undefined;
    },
    async getSteps(runId, owner) {
      const steps = (await find(runId, owner)) ? await store.list("steps", runId) : [];
      return steps.length > 0 && steps.every(({ messages }) => messages.length > 0)
        ? steps
        : undefined;
    },
    async findResponse(runId, keyId) {
      const run = await findOfKey(runId, keyId);
      return run && toStoredResponse(run);
    },
  };
}
