import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ApprovalRecord, HookRun, StepRecord } from "../../src/store/types.ts";
import { createWorld, type World } from "../http/admin-world.ts";

let world: World;
beforeEach(async () => {
  world = await createWorld();
});
afterEach(() => world.close());

const NOW = Date.now();
const INPUT = { to: "ACME", amount: 50, note: "rent <b>" };

/** A run that waits for a decision about one call. */
async function wait(
  change: Partial<ApprovalRecord> = {},
  run: Partial<HookRun> = {},
  input: unknown = INPUT,
): Promise<ApprovalRecord> {
  const id = change.runId ?? `run_${Math.random().toString(32).slice(2)}`;
  const approval: ApprovalRecord = {
    id: `apr_${id.slice(4)}`,
    code: "7f3",
    runId: id,
    callId: `${id}.0.0`,
    agentId: "main",
    tool: "bank.transfer",
    input: INPUT,
    reason: "rule",
    why: "Calls of bank.transfer need approval.",
    askedAt: NOW,
    expiresAt: NOW + 3_600_000,
    ...change,
  };
  const spec = {
    session: { agentId: "main", origin: "hook" as const, key: "hook:1" },
    name: "Shop",
    hook: "shop",
    input: [],
    wakeMode: "now" as const,
    deliver: false,
    target: { channel: "last" },
    unsafe: false,
  };
  const record: HookRun = {
    id,
    eventId: null,
    kind: "hook",
    status: "waiting",
    spec,
    warnings: [],
    attempts: 1,
    restarts: 0,
    createdAt: NOW,
    ...run,
  };
  const step: StepRecord = {
    runId: id,
    index: 0,
    model: "local/big",
    messages: [],
    finish: "tool-calls",
    usage: {},
    startedAt: NOW,
    endedAt: NOW,
    calls: [
      {
        id: approval.callId,
        modelCallId: "c1",
        tool: approval.tool,
        name: "bank__transfer",
        input,
        state: "waiting",
        approvalId: approval.id,
      },
    ],
  };
  await world.store.commit((tx) => {
    tx.runs.add(record);
    tx.steps.add(step);
    tx.approvals.add(approval);
  });
  return approval;
}

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
async function decide(idOrCode: string, body: object): Promise<{ status: number; body: any }> {
  const response = await world.request(`/approvals/${idOrCode}`, {
    method: "POST",
    body: JSON.stringify(body),
  });
  return { status: response.status, body: await response.json() };
}
const read = async (path: string) => (await world.request(path)).json();

describe("decisions", () => {
  it("are recorded once, with who made them and their words", async () => {
    const { id, code } = await wait();
    expect(await read("/approvals?state=open")).toMatchObject({
      approvals: [{ id, code, input: INPUT, verdicts: ["approve", "deny"], state: "open" }],
    });
    expect(await decide(" 7F3", { verdict: "deny", note: "Ask Ann." })).toMatchObject({
      status: 200,
      body: { approval: { state: "decided" } },
    });
    expect(await read("/approvals?state=open")).toMatchObject({ approvals: [] });
    const decided = { decision: { verdict: "deny", by: "operator", note: "Ask Ann." } };
    expect(await read(`/approvals/${id}`)).toMatchObject({ approval: decided });
    const again = await decide("7f3", { verdict: "approve" });
    expect(again).toMatchObject({ status: 409, body: { error: { code: "approval_decided" } } });
    expect(again.body.error.message).toMatch(
      /^the approval 7f3 was decided before \(denied by operator at .*\): a decision cannot be changed$/,
    );
    expect(await read(`/approvals/${id}`)).toMatchObject({
      approval: {
        ...decided,
        refused: [
          { verdict: "approve", by: "operator", code: "approval_decided", at: expect.any(String) },
        ],
      },
    });
  });

  it("of two at the same time one counts", async () => {
    const { id } = await wait();
    const both = await Promise.all([
      decide(id, { verdict: "approve" }),
      decide(id, { verdict: "deny" }),
    ]);
    expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409]);
    expect(both.find(({ status }) => status === 409)?.body.error.code).toBe("approval_decided");
  });

  it.each<
    [
      why: string,
      change: Partial<ApprovalRecord>,
      run: Partial<HookRun>,
      input: unknown,
      status: number,
      code: string,
      words: string,
    ]
  >([
    ["late", { expiresAt: NOW - 1 }, {}, INPUT, 409, "approval_expired", "expired at"],
    [
      "of a run that has ended",
      {},
      { status: "cancelled", endedAt: NOW },
      INPUT,
      409,
      "run_ended",
      "the run of the approval 7f3 has ended",
    ],
    [
      "about other arguments",
      {},
      {},
      { ...INPUT, amount: 51 },
      409,
      "approval_changed",
      "its arguments have changed",
    ],
    [
      "that do not fit",
      { reason: "outcome_unknown" },
      {},
      INPUT,
      400,
      "usage",
      "it takes repeat, done, give_up",
    ],
  ])("%s are refused", async (_why, change, run, input, ...[status, code, words]) => {
    const { id } = await wait(change, run, input);
    const refused = await decide(id, { verdict: "approve" });
    expect(refused).toMatchObject({ status, body: { error: { code } } });
    expect(refused.body.error.message).toContain(words);
    const kept = await world.store.approvals.get(id);
    expect(kept).not.toHaveProperty("decision");
    expect(kept?.refused).toEqual([
      { verdict: "approve", by: "operator", at: expect.any(Number), code },
    ]);
  });

  it("of the operator are refused if tools.approvers does not name the operator", async () => {
    await world.close();
    world = await createWorld({ config: { tools: { approvers: ["api:web"] } } });
    const { id } = await wait();
    expect(await decide(id, { verdict: "approve" })).toMatchObject({
      status: 403,
      body: {
        error: {
          code: "not_approver",
          message: expect.stringContaining("operator is not in tools.approvers"),
        },
      },
    });
    expect(await world.store.approvals.get(id)).not.toHaveProperty("decision");
  });

  it("about nothing are refused", async () => {
    expect(await decide("7f3", { verdict: "approve" })).toMatchObject({
      status: 404,
      body: { error: { code: "not_found" } },
    });
    expect(await decide("apr_nothing", { verdict: "approve" })).toMatchObject({ status: 404 });
    expect(await decide("7f3", { verdict: "maybe" })).toMatchObject({
      status: 400,
      body: { error: { code: "usage" } },
    });
  });

  it("about a call of unknown outcome repeat it, treat it as done, or give up", async () => {
    for (const verdict of ["repeat", "done", "give_up"]) {
      const { id } = await wait({
        reason: "outcome_unknown",
        code: verdict === "done" ? "222" : verdict === "repeat" ? "223" : "224",
      });
      expect(await decide(id, { verdict })).toMatchObject({
        status: 200,
        body: { approval: { decision: { verdict, by: "operator" } } },
      });
    }
  });
});

describe("rules", () => {
  it("are shown before they are saved, listed, and removed", async () => {
    const { id } = await wait();
    const preview = await world.request(`/approvals/${id}/rule`, {
      method: "POST",
      body: JSON.stringify({ any: ["amount"] }),
    });
    const text =
      'bank.transfer by the agent main, if to is "ACME" and note is "rent <b>" and amount is anything';
    expect(await preview.json()).toMatchObject({ rule: text });
    expect(await read("/approvals/rules")).toMatchObject({ rules: [] });
    const { body } = await decide(id, { verdict: "approve", always: { any: ["amount"] } });
    expect(body).toMatchObject({ rule: { text, by: "operator", approvalId: id } });
    expect(await read("/approvals/rules")).toMatchObject({ rules: [{ id: body.rule.id, text }] });
    expect(
      (await world.request(`/approvals/rules/${body.rule.id}`, { method: "DELETE" })).status,
    ).toBe(200);
    expect(await read("/approvals/rules")).toMatchObject({ rules: [] });
    expect(
      (await world.request(`/approvals/rules/${body.rule.id}`, { method: "DELETE" })).status,
    ).toBe(404);
  });

  it("of arguments that the call does not have are refused, and nothing is decided", async () => {
    const { id } = await wait();
    const refused = await decide(id, { verdict: "approve", always: { any: ["amuont"] } });
    expect(refused).toMatchObject({
      status: 400,
      body: { error: { message: 'the call has no argument "amuont"; it has to, amount, note' } },
    });
    expect(await world.store.approvals.get(id)).not.toHaveProperty("decision");
  });
});
