import { describe, expect, it } from "vitest";
import { approval, DAY, DECISION, event, KEEP, runAction, START, step, WORDS } from "./make.ts";
import type { Stage } from "./stage.ts";

/** The actions of the retention tests on runs. */
function createRuns(stage: Stage) {
  /** A run of a hook with all that may happen in it. */
  const acted = async (): Promise<string> => {
    const action = runAction();
    const { runId } = action;
    await stage.store.accept(event({ actions: [action] }));
    await stage.store.commit((tx) => {
      tx.steps.add(step(runId, 0, 1));
      tx.steps.updateCall(runId, `${runId}.0.0`, {
        state: "done",
        output: { parts: [{ type: "text", text: WORDS }], isError: true },
      });
      tx.toolResults.add({ id: `res_${runId}`, runId, text: WORDS });
      tx.approvals.add(approval(runId, { code: runId }));
      tx.approvals.decide(`apr_${runId}`, DECISION);
    });
    return runId;
  };
  const end = (runId: string, status: "succeeded" | "failed"): Promise<boolean> =>
    stage.store.commit((tx) => tx.runs.update(runId, { status, endedAt: START }));
  const parts = async (runId: string) => ({
    steps: await stage.store.steps.list(runId),
    result: await stage.store.toolResults.get(`res_${runId}`),
    approval: await stage.store.approvals.get(`apr_${runId}`),
  });
  return { acted, end, parts };
}

const NOTHING = { steps: [], result: undefined, approval: undefined };

function testDeletion(stage: Stage): void {
  const { acted, end, parts } = createRuns(stage);

  it("takes them with their run, and no others", async () => {
    const [gone, young] = [await acted(), await acted()];
    const kept = await parts(young);
    await end(gone, "succeeded");
    await stage.store.sweep(START + 29 * DAY, KEEP);
    expect((await parts(gone)).steps).toHaveLength(1);
    await stage.store.sweep(START + 31 * DAY, KEEP);
    expect(await stage.store.runs.get(gone)).toBeUndefined();
    expect(await parts(gone)).toEqual(NOTHING);
    expect(await parts(young)).toEqual(kept);
    expect(await stage.store.approvals.list({})).toHaveLength(1);
    expect(await stage.store.counts()).toMatchObject({ "approvals.decided": 1 });
  });

  it("with runs 0 takes them as soon as their run has ended", async () => {
    const [done, open] = [await acted(), await acted()];
    await end(done, "failed");
    await stage.store.sweep(START + 1, { ...KEEP, runs: 0 });
    expect(await parts(done)).toEqual(NOTHING);
    expect((await parts(open)).steps).toHaveLength(1);
  });
}

function testFiles(stage: Stage): void {
  it("keeps the files of a delivery as long as the delivery, whatever becomes of bodies", async () => {
    const { store } = stage.handle;
    const file = { id: "dlv_f.file.0", name: "a.txt", mediaType: "text/plain", bytes: 3 };
    const route = { channel: "room", to: "42" };
    await store.commit((tx) => {
      tx.deliveries.add({
        id: "dlv_f",
        runId: "run_f",
        route,
        chunks: ["Here."],
        files: [file],
        createdAt: START,
      });
      tx.toolResults.add({ id: file.id, runId: "dlv_f", text: WORDS });
    });
    await store.commit((tx) =>
      tx.deliveries.update("dlv_f", { nextChunk: 1, warnings: ["a note"] }),
    );
    await store.sweep(START + 29 * DAY, { ...KEEP, bodies: 0 });
    expect(await store.deliveries.get("dlv_f")).toMatchObject({
      files: [file],
      warnings: ["a note"],
      nextChunk: 1,
    });
    expect((await store.toolResults.get(file.id))?.text).toBe(WORDS);
    await store.commit((tx) =>
      tx.deliveries.update("dlv_f", { status: "delivered", endedAt: START }),
    );
    await store.sweep(START + 1, { ...KEEP, deliveries: 0 });
    expect(await store.deliveries.get("dlv_f")).toBeUndefined();
    expect(await store.toolResults.get(file.id)).toBeUndefined();
  });
}

function testRedaction(stage: Stage): void {
  const { acted, end, parts } = createRuns(stage);

  it("with bodies 0 leaves only names and times of what is used up", async () => {
    const [done, failed, open] = [await acted(), await acted(), await acted()];
    const before = await parts(done);
    await end(done, "succeeded");
    await end(failed, "failed");
    const none = { ...KEEP, bodies: 0 };
    await stage.store.sweep(START, none);
    const after = await parts(done);
    expect(JSON.stringify(after)).not.toContain(WORDS);
    const [was] = before.steps;
    const forgotten = "[no longer kept]";
    expect(after).toEqual({
      steps: [
        {
          ...was,
          messages: [],
          failedAttempts: [
            { ...was?.failedAttempts?.[0], error: { code: "provider_error", message: forgotten } },
          ],
          calls: [
            {
              ...was?.calls[0],
              input: forgotten,
              output: { parts: [{ type: "text", text: forgotten }], isError: true },
            },
          ],
        },
      ],
      result: { ...before.result, text: forgotten },
      approval: { ...before.approval, input: forgotten },
    });
    // A failed run may be started again, and an open run goes on, so both keep their steps.
    for (const runId of [failed, open])
      expect(JSON.stringify(await parts(runId)).split(WORDS)).toHaveLength(8);
    await end(failed, "succeeded");
    await end(open, "succeeded");
    await stage.store.sweep(START, none);
    for (const runId of [failed, open])
      expect(JSON.stringify(await parts(runId))).not.toContain(WORDS);
    expect(await stage.store.sweep(START, none)).toBe(0);
  });
}

/** Retention of what happened in runs. */
export function testStepSweep(stage: Stage): void {
  describe("sweep of steps", () => {
    testDeletion(stage);
    testFiles(stage);
    testRedaction(stage);
  });
}
