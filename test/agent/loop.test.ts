import { describe, expect, it, vi } from "vitest";
import { NO_TRACES } from "../../src/core/http/trace-context.ts";
import { runLoop, type LoopOptions, type ModelStep } from "../../src/agent/loop.ts";
import type { CallVerdict, Journal } from "../../src/agent/types.ts";
import { OutcomeUnknownError, type OfferedTool } from "../../src/agent/tools/offered-tool.ts";
import type { ApprovalDecision, StepRecord } from "../../src/store/types.ts";

const said = (calls: [name: string, input: object][]): ModelStep => ({
  model: "local/m",
  messages: [{ role: "assistant", content: calls.length === 0 ? "Done." : "I call." }],
  calls: calls.map(([toolName, input], at) => ({ toolCallId: `c${at}`, toolName, input })),
  finish: calls.length === 0 ? "stop" : "tool-calls",
  usage: {},
  startedAt: 1,
  endedAt: 2,
});

/** Commits of the journal and calls, in order. */
let happened: string[] = [];

const tool = (name: string, more: Partial<OfferedTool> = {}): OfferedTool => ({
  name,
  tool: `box.${name}`,
  hints: { readOnly: false, idempotent: false, destructive: false },
  exclusive: false,
  definition: { inputSchema: {} as never },
  async execute(_input, { callId }) {
    happened.push(`begin ${callId}`);
    await new Promise((done) => setTimeout(done, 5));
    happened.push(`end ${callId}`);
    return { parts: [{ type: "text", text: name }] };
  },
  ...more,
});

interface Setup {
  steps?: StepRecord[];
  decisions?: Record<string, ApprovalDecision>;
  held?: () => boolean;
}

const journalOf = ({ steps = [], decisions = {}, held = () => true }: Setup = {}): Journal => ({
  steps,
  addStep: ({ calls }) => (
    happened.push(`step ${calls.map(({ state }) => state).join(" ")}`),
    Promise.resolve(held())
  ),
  updateCalls: (changes) => (
    happened.push(changes.map(({ id, change }) => `${id}: ${change.state}`).join(", ")),
    Promise.resolve(held())
  ),
  getWhole: () => Promise.resolve(undefined),
  getDecision: (id) => Promise.resolve(decisions[id]),
});

const run = (calls: [string, object][], tools: OfferedTool[], more: Partial<LoopOptions> = {}) => {
  happened = [];
  let asked = 0;
  return runLoop({
    runId: "run",
    traces: NO_TRACES,
    tools: new Map(tools.map((one) => [one.name, one])),
    callerTools: new Set(),
    journal: journalOf(),
    onUnknown: "ask",
    signal: new AbortController().signal,
    clock: { now: () => 10 },
    warnings: [],
    maxResultBytes: 20_000,
    callModel: () => Promise.resolve(said(asked++ === 0 ? calls : [])),
    ...more,
  });
};

const step = (state: StepRecord["calls"][number]["state"], more: object = {}): StepRecord => ({
  ...said([]),
  runId: "run",
  index: 0,
  calls: [
    { id: "run.0.0", modelCallId: "c0", tool: "box.a", name: "a", input: {}, state, ...more },
  ],
});

describe("the loop of a turn", () => {
  it("starts nothing before it is on disk as started, and commits each result", async () => {
    expect(await run([["a", {}]], [tool("a")])).toMatchObject({ kind: "done" });
    expect(happened).toEqual(["step started", "begin run.0.0", "end run.0.0", "run.0.0: done"]);
  });

  it("does not call a tool whose input was cut before it began", async () => {
    const answers = [
      {
        ...said([
          ["a", { at: 1 }],
          ["b", {}],
        ]),
        finish: "length",
      },
      said([]),
    ];
    const callModel = () => Promise.resolve(answers.shift() as ModelStep);
    expect(await run([], [tool("a"), tool("b")], { callModel })).toMatchObject({ kind: "done" });
    expect(happened[0]).toBe("step started failed");
  });

  it("runs an exclusive tool alone", async () => {
    const calls: [string, object][] = [
      ["alone", {}],
      ["a", {}],
      ["b", {}],
    ];
    await run(calls, [tool("a"), tool("b"), tool("alone", { exclusive: true })]);
    expect(happened[0]).toBe("step planned started started");
    expect(happened.slice(1, 3)).toEqual(["begin run.0.1", "begin run.0.2"]);
    expect(happened.slice(-4)).toEqual([
      "run.0.0: started",
      "begin run.0.0",
      "end run.0.0",
      "run.0.0: done",
    ]);
  });

  it("starts no tool once another gateway has the run", async () => {
    expect(
      await run([["a", {}]], [tool("a")], { journal: journalOf({ held: () => false }) }),
    ).toEqual({ kind: "lost" });
    expect(happened).toEqual(["step started"]);
  });

  it("calls no tool, and repeats none, unless the run surely is still this gateway's", async () => {
    const commits: boolean[] = [true, false];
    const journal = journalOf({ held: () => commits.shift() as boolean });
    expect(
      await run([["a", {}]], [tool("a")], { journal, ready: () => Promise.resolve(false) }),
    ).toEqual({ kind: "lost" });
    expect(happened).toEqual(["step started", "run.0.0: unknown"]);

    const answers = [true, false];
    const cut = vi.fn(() => Promise.reject(new OutcomeUnknownError("cut")));
    const hints = { readOnly: true, idempotent: true, destructive: false };
    await run([["a", {}]], [tool("a", { hints, execute: cut })], {
      ready: () => Promise.resolve(answers.shift() ?? true),
    });
    expect([cut.mock.calls.length, answers]).toEqual([1, []]);
  });

  it("ends as lost if another gateway has the run when the tool answers", async () => {
    let commits = 0;
    const journal = journalOf({ held: () => commits++ === 0 });
    expect(await run([["a", {}]], [tool("a")], { journal })).toEqual({ kind: "lost" });
  });

  it("asks a person about a call that was started and has no answer, and repeats it only if the tool is safe to repeat", async () => {
    const asked = await run([], [tool("a")], { journal: journalOf({ steps: [step("started")] }) });
    expect(asked).toMatchObject({
      kind: "waiting",
      asks: [{ callId: "run.0.0", reason: "outcome_unknown" }],
    });
    expect(happened).toEqual([]);
    const hints = { readOnly: false, idempotent: true, destructive: false };
    expect(
      await run([], [tool("a", { hints })], { journal: journalOf({ steps: [step("started")] }) }),
    ).toMatchObject({ kind: "done" });
    expect(happened).toEqual(["run.0.0: started", "begin run.0.0", "end run.0.0", "run.0.0: done"]);
  });

  it("reports a call without an answer to the model and the operator if no one can be asked", async () => {
    const warnings: string[] = [];
    const cut = tool("a", { execute: () => Promise.reject(new OutcomeUnknownError("cut")) });
    const end = await run([["a", {}]], [cut], { onUnknown: "tell", warnings });
    expect(end).toMatchObject({
      kind: "done",
      steps: [{ calls: [{ state: "unknown", output: { isError: true } }] }, {}],
    });
    expect(warnings).toEqual([
      "the outcome of a call of box.a is not known: this was reported to the model",
    ]);
  });

  it("waits for a person where the judge says so, while the other calls of the step are made", async () => {
    const judge = ({ tool: name }: { tool: string }): CallVerdict | undefined =>
      name === "box.b" ? { kind: "ask", reason: "rule", why: "the rule asks" } : undefined;
    const calls: [string, object][] = [
      ["a", {}],
      ["b", { to: "x" }],
    ];
    const end = await run(calls, [tool("a"), tool("b")], { judge });
    expect(end).toEqual({
      kind: "waiting",
      asks: [
        {
          callId: "run.0.1",
          tool: "box.b",
          input: { to: "x" },
          reason: "rule",
          why: "the rule asks",
        },
      ],
      open: [],
    });
    expect(happened).toEqual([
      "step started planned",
      "begin run.0.0",
      "end run.0.0",
      "run.0.0: done",
    ]);
  });

  it("makes no call that the judge withholds, and tells the model why", async () => {
    const judge = (): CallVerdict => ({ kind: "withhold", why: "outside text is in view" });
    const end = await run([["a", {}]], [tool("a")], { judge });
    expect(JSON.stringify(end)).toContain("outside text is in view");
    expect(happened).toEqual(["step denied"]);
  });

  const at = 5;
  it.each<[string, ApprovalDecision | undefined, object, string[]]>([
    [
      "approved",
      { verdict: "approve", by: "operator", at },
      { kind: "done" },
      ["run.0.0: started", "begin run.0.0", "end run.0.0", "run.0.0: done"],
    ],
    [
      "denied",
      { verdict: "deny", by: "operator", at, note: "too much" },
      { kind: "done" },
      ["run.0.0: denied"],
    ],
    [
      "not decided in time",
      { verdict: "deny", by: "timeout", at },
      { kind: "done" },
      ["run.0.0: denied"],
    ],
    ["open", undefined, { kind: "waiting", asks: [], open: ["apr_1"] }, []],
  ])("follows a decision: %s", async (_name, decision, end, expected) => {
    const steps = [step("waiting", { approvalId: "apr_1" })];
    const journal = journalOf({ steps, ...(decision && { decisions: { apr_1: decision } }) });
    expect(await run([], [tool("a")], { journal })).toMatchObject(end);
    expect(happened).toEqual(expected);
    if (decision?.note) expect(JSON.stringify(steps)).toContain("too much");
  });

  it("asks again about a call that was started after its decision and has no answer", async () => {
    const steps = [step("unknown", { approvalId: "apr_1", startedFor: "apr_1", startedAt: 6 })];
    const journal = journalOf({
      steps,
      decisions: { apr_1: { verdict: "repeat", by: "operator", at } },
    });
    expect(await run([], [tool("a")], { journal })).toMatchObject({
      kind: "waiting",
      asks: [{ reason: "outcome_unknown" }],
    });
    expect(happened).toEqual([]);
  });
});
