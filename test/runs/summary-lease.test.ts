import { describe, expect, it, vi } from "vitest";
import {
  prepareHistory,
  type CheckpointRun,
  type SessionHistory,
} from "../../src/turns/session-history.ts";

const WORDS = "word ".repeat(150);
const SUMMARY = "The tiles are blue.";

describe("the summary of a session", () => {
  it("is not asked for unless the run surely is still this gateway's", async () => {
    const runTurn = vi.fn(() => Promise.resolve({ ok: true, text: SUMMARY }));
    const turns = Array.from({ length: 4 }, (_, seq) => ({
      runId: `run_${seq}`,
      seq,
      input: [{ text: WORDS, outside: false }],
      messages: [],
      hook: "alerts",
    }));
    const history = { turns, tokens: 9_000, isCut: false } as unknown as SessionHistory;
    const prepare = (isHeld: boolean): Promise<unknown> =>
      prepareHistory(
        {
          run: { id: "run_9", spec: { session: { agentId: "main", origin: "hook", key: "one" } } },
          agent: {
            id: "main",
            resolved: { ok: true, model: { ref: "local/big" } },
            room: 1_000,
          },
          context: {
            runtime: { runTurn },
            config: { agents: { defaults: { checkpoints: true } } },
          },
          deps: {
            store: {
              sessions: { listTurns: () => Promise.resolve(turns) },
              commit: () => Promise.resolve(false),
            },
            clock: { now: () => 1 },
          },
          signal: new AbortController().signal,
          timeoutMs: 1_000,
          gate: { ready: () => Promise.resolve(isHeld) },
        } as unknown as CheckpointRun,
        history,
      );
    expect(await prepare(false)).toMatchObject({ history });
    expect(runTurn).not.toHaveBeenCalled();
    await prepare(true);
    expect(runTurn).toHaveBeenCalledOnce();
  });
});
