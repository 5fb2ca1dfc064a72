import { describe, expect, it } from "vitest";
import { ID_TAKEN, NOT_OPEN } from "../../../src/store/sql/errors.ts";
import type { Job, Lists, RefusedDecision, StepRecord, Writes } from "../../../src/store/types.ts";
import { approval, DAY, DECISION, job, run, START, step } from "./make.ts";
import type { Stage } from "./stage.ts";

/** The actions of the journal's tests on the store. */
function createSteps(stage: Stage) {
  const commit = (write: (tx: Writes) => void, held?: Job): Promise<boolean> =>
    stage.store.commit(write, held);
  const steps = (runId: string): Promise<StepRecord[]> => stage.store.steps.list(runId);
  /** Expects that nothing of the commit is written, and that the error has the message by which callers know it. */
  const expectRefused = async (
    write: (tx: Writes) => void,
    { message } = ID_TAKEN,
  ): Promise<void> => {
    const marked = commit((tx) => {
      tx.values.set("mark", 1);
      write(tx);
    });
    await expect(marked).rejects.toMatchObject({ name: "RouseError", code: "internal", message });
    expect(await stage.store.values.get("mark")).toBeUndefined();
  };
  return { commit, steps, expectRefused };
}

function testJournal(stage: Stage): void {
  const { commit, steps, expectRefused } = createSteps(stage);

  it("are kept in order with their calls, apart by run, and survive a restart", async () => {
    const [first, second, other] = [step("run_a", 0), step("run_a", 1, 0), step("run_b", 0, 1)];
    await commit((tx) => {
      tx.steps.add(second);
      tx.steps.add(other);
    });
    await commit((tx) => tx.steps.add(first));
    await stage.reopen();
    expect(await steps("run_a")).toEqual([first, second]);
    expect(await steps("run_b")).toEqual([other]);
    expect(await steps("run_c")).toEqual([]);
  });

  it("of a run with the index of one that is there refuse the whole commit", async () => {
    await commit((tx) => tx.steps.add(step("run_a", 0)));
    await expectRefused((tx) => tx.steps.add(step("run_a", 0, 0)));
    await expectRefused((tx) => {
      tx.steps.add(step("run_a", 1, 0));
      tx.steps.add(step("run_a", 1, 0));
    });
    expect(await steps("run_a")).toEqual([step("run_a", 0)]);
    // Of two in one group the first stays, and the second harms no other.
    const results = await Promise.allSettled([
      commit((tx) => tx.steps.add(step("run_a", 1))),
      commit((tx) => tx.steps.add(step("run_a", 1, 0))),
      commit((tx) => tx.steps.add(step("run_a", 2))),
    ]);
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(await steps("run_a")).toEqual([step("run_a", 0), step("run_a", 1), step("run_a", 2)]);
  });

  it("have stored results, whole, and each id once", async () => {
    const result = { id: "res_1", runId: "run_a", text: `${"ü🙂".repeat(200_000)}\u0000\ud800` };
    await commit((tx) => tx.toolResults.add(result));
    await expectRefused((tx) => tx.toolResults.add({ ...result, text: "other" }));
    await stage.reopen();
    const kept = await stage.store.toolResults.get("res_1");
    expect(kept?.text === result.text && kept.runId === "run_a").toBe(true);
    expect(await stage.store.toolResults.get("res_2")).toBeUndefined();
  });
}

function testCalls(stage: Stage): void {
  const { commit, steps } = createSteps(stage);

  it("have calls that change alone; what is not there stays away", async () => {
    const given = step("run_a", 0, 3);
    const output = { parts: [{ type: "text" as const, text: "done" }] };
    await commit((tx) => {
      tx.steps.add(given);
      tx.steps.updateCall("run_a", "run_a.0.2", { state: "started", startedAt: START });
    });
    await commit((tx) => tx.steps.add(step("run_b", 0)));
    await Promise.all([
      commit((tx) =>
        tx.steps.updateCall("run_a", "run_a.0.0", { state: "started", startedAt: START + 1 }),
      ),
      commit((tx) =>
        tx.steps.updateCall("run_a", "run_a.0.0", { state: "done", endedAt: START + 2, output }),
      ),
      commit((tx) => tx.steps.updateCall("run_a", "run_a.0.2", { approvalId: "apr_1" })),
      commit((tx) => tx.steps.updateCall("run_a", "run_b.0.0", { state: "failed" })),
      commit((tx) => tx.steps.updateCall("run_c", "run_c.0.0", { state: "failed" })),
    ]);
    await stage.reopen();
    const [first, second, third] = given.calls;
    const calls = [
      { ...first, state: "done", startedAt: START + 1, endedAt: START + 2, output },
      second,
      { ...third, state: "started", startedAt: START, approvalId: "apr_1" },
    ];
    expect(await steps("run_a")).toEqual([{ ...given, calls }]);
    expect(await steps("run_b")).toEqual([step("run_b", 0)]);
    expect(await steps("run_c")).toEqual([]);
  });

  it("are written only while the job is held", async () => {
    await commit((tx) => tx.jobs.add(job("run_a")));
    const [held] = await stage.queue.fetch("turn", 1);
    expect(await commit((tx) => tx.steps.add(step("run_a", 0)), held)).toBe(true);
    await stage.queue.recover();
    const [next] = await stage.queue.fetch("turn", 1);
    expect(await commit((tx) => tx.steps.add(step("run_a", 1)), held)).toBe(false);
    expect(
      await commit((tx) => tx.steps.updateCall("run_a", "run_a.0.0", { state: "started" }), held),
    ).toBe(false);
    expect(await steps("run_a")).toEqual([step("run_a", 0)]);
    expect(await commit((tx) => tx.steps.add(step("run_a", 1)), next)).toBe(true);
  });
}

function testDecisions(stage: Stage): void {
  const { commit, expectRefused } = createSteps(stage);

  it("are open until they are decided, once", async () => {
    const given = approval("run_a");
    await commit((tx) => tx.approvals.add(given));
    expect(await stage.store.approvals.get(given.id)).toEqual(given);
    expect(await stage.store.counts()).toMatchObject({
      "approvals.open": 1,
      "approvals.decided": 0,
    });
    await commit((tx) => tx.approvals.decide(given.id, DECISION));
    await stage.reopen();
    const decided = { ...given, decision: DECISION };
    expect(await stage.store.approvals.get(given.id)).toEqual(decided);
    await expectRefused(
      (tx) => tx.approvals.decide(given.id, { ...DECISION, verdict: "deny" }),
      NOT_OPEN,
    );
    await expectRefused((tx) => tx.approvals.decide("apr_nobody", DECISION), NOT_OPEN);
    expect(await stage.store.approvals.get(given.id)).toEqual(decided);
    expect(await stage.store.approvals.get("apr_nobody")).toBeUndefined();
    expect(await stage.store.counts()).toMatchObject({
      "approvals.open": 0,
      "approvals.decided": 1,
    });
  });

  it("keep the newest decisions that were refused, before and after one counts", async () => {
    const given = approval("run_a");
    const refused = (n: number): RefusedDecision => ({
      verdict: "deny",
      by: `person ${n}`,
      at: START + n,
      code: "not_approver",
    });
    await commit((tx) => tx.approvals.add(given));
    await commit((tx) => tx.approvals.addRefused(given.id, refused(0)));
    await commit((tx) => {
      tx.approvals.decide(given.id, DECISION);
      tx.approvals.addRefused(given.id, refused(1));
      tx.approvals.addRefused("apr_nobody", refused(1));
    });
    const read = () => stage.store.approvals.get(given.id);
    expect(await read()).toEqual({
      ...given,
      decision: DECISION,
      refused: [refused(0), refused(1)],
    });
    for (let n = 2; n < 25; n++)
      await commit((tx) => tx.approvals.addRefused(given.id, refused(n)));
    expect((await read())?.refused).toEqual(Array.from({ length: 20 }, (_, n) => refused(n + 5)));
    expect(await stage.store.approvals.get("apr_nobody")).toBeUndefined();
  });

  it("of many decisions at the same moment take the first", async () => {
    const given = approval("run_a");
    await commit((tx) => tx.approvals.add(given));
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, n) =>
        commit((tx) => tx.approvals.decide(given.id, { ...DECISION, by: `person ${n}` })),
      ),
    );
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    const winner = results.findIndex(({ status }) => status === "fulfilled");
    expect((await stage.store.approvals.get(given.id))?.decision).toEqual({
      ...DECISION,
      by: `person ${winner}`,
    });
    await commit((tx) => tx.approvals.add(approval("run_b")));
    await expectRefused((tx) => {
      tx.approvals.decide("apr_run_b", DECISION);
      tx.approvals.decide("apr_run_b", DECISION);
    }, NOT_OPEN);
    expect(await stage.store.approvals.get("apr_run_b")).toEqual(approval("run_b"));
  });
}

function testCodes(stage: Stage): void {
  const { commit, expectRefused } = createSteps(stage);

  it("have a code of their own while they are open", async () => {
    await commit((tx) => tx.approvals.add(approval("run_a")));
    await expectRefused((tx) => tx.approvals.add(approval("run_a", { code: "other" })));
    await expectRefused((tx) => tx.approvals.add(approval("run_b")));
    const third = approval("run_c", { code: "8a1" });
    await expectRefused((tx) => {
      tx.approvals.add(third);
      tx.approvals.add(approval("run_d", { code: "8a1" }));
    });
    await commit((tx) => {
      tx.approvals.decide("apr_run_a", DECISION);
      tx.approvals.add(approval("run_b"));
    });
    expect(await stage.store.approvals.list({ state: "open" })).toEqual([approval("run_b")]);
  });
}

function testApprovalLists(stage: Stage): void {
  const { commit } = createSteps(stage);

  it("are listed by agents, so that a page is full while there are more", async () => {
    for (let n = 0; n < 8; n++) {
      // The model's own `agentId` is an input, and no field of the approval.
      const more = {
        id: `apr_${n}`,
        code: `c${n}`,
        agentId: n % 4 === 0 ? "sales" : "ops",
        input: { agentId: "sales" },
      };
      await commit((tx) => tx.approvals.add(approval(`run_${n}`, more)));
    }
    const ids = async (query: Lists["approvals"]["of"]): Promise<string[]> =>
      (await stage.store.approvals.list(query)).map(({ id }) => id);
    expect(await ids({ agents: ["sales"], limit: 2 })).toEqual(["apr_4", "apr_0"]);
    expect(await ids({ agents: ["sales", "ops"], state: "open", before: "apr_2" })).toEqual([
      "apr_1",
      "apr_0",
    ]);
    expect(await ids({ agents: ["o'ps?"] })).toEqual([]);
    expect(await ids({ agents: [] })).toEqual([]);
  });

  it("are listed newest first, by state, run and page", async () => {
    for (const n of [0, 1, 2, 3])
      await commit((tx) => {
        tx.approvals.add(
          approval(`run_${n % 2}`, { id: `apr_${n}`, code: `c${n}`, askedAt: START + n }),
        );
        if (n < 2) tx.approvals.decide(`apr_${n}`, DECISION);
      });
    const ids = async (query: Lists["approvals"]["of"]): Promise<string[]> =>
      (await stage.store.approvals.list(query)).map(({ id }) => id);
    expect(await ids({})).toEqual(["apr_3", "apr_2", "apr_1", "apr_0"]);
    expect(await ids({ state: "open" })).toEqual(["apr_3", "apr_2"]);
    expect(await ids({ state: "decided" })).toEqual(["apr_1", "apr_0"]);
    expect(await ids({ runId: "run_1" })).toEqual(["apr_3", "apr_1"]);
    expect(await ids({ limit: 2, before: "apr_3" })).toEqual(["apr_2", "apr_1"]);
    expect(await ids({ since: START + 2 })).toEqual(["apr_3", "apr_2"]);
    expect(await ids({ idPrefix: "apr_2" })).toEqual(["apr_2"]);
  });
}

function testWaiting(stage: Stage): void {
  const { commit } = createSteps(stage);

  it("a run that waits for them is counted and listed, keeps its job, and starts when it may", async () => {
    const record = run();
    await commit((tx) => {
      tx.runs.add(record);
      tx.jobs.add(job(record.id));
      tx.jobs.add(job("behind"));
    });
    const [held] = await stage.queue.fetch("turn", 5);
    const far = START + 365 * DAY;
    const hold = { reason: "person", approvalIds: ["apr_1"], since: START, until: far } as const;
    await commit((tx) => {
      tx.runs.update(record.id, { status: "waiting", hold });
      tx.jobs.settle(held as Job, far, { resetAttempts: true });
    }, held);
    await stage.reopen();
    expect(await stage.store.counts()).toMatchObject({
      "runs.waiting": 1,
      "runs.queued": 0,
    });
    expect(await stage.store.runs.list({ status: "waiting" })).toEqual([
      { ...record, status: "waiting", hold },
    ]);
    stage.clock.advance(3 * DAY);
    expect(await stage.queue.fetch("turn", 5)).toEqual([]);
    await commit((tx) => {
      tx.jobs.reschedule("turn", record.id, stage.clock.now());
      tx.runs.update(record.id, { status: "queued", hold: null });
    });
    expect(await stage.queue.fetch("turn", 5)).toMatchObject([{ id: record.id, attempts: 1 }]);
    expect(await stage.store.runs.get(record.id)).toEqual(record);
  });
}

/** The journal of runs: steps, tool calls, stored results and approvals. */
export function testSteps(stage: Stage): void {
  describe("steps", () => {
    testJournal(stage);
    testCalls(stage);
  });
  describe("approvals", () => {
    testDecisions(stage);
    testCodes(stage);
    testApprovalLists(stage);
    testWaiting(stage);
  });
}
