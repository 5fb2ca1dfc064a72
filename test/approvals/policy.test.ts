import { describe, expect, it } from "vitest";
import { findOutside, type View } from "../../src/people/judge.ts";
import { judgeCall, type JudgedTurn } from "../../src/people/policy.ts";
import type { TurnRecord } from "../../src/store/types.ts";

const READS = { readOnly: true, idempotent: true, destructive: false };
const CHANGES = { readOnly: false, idempotent: false, destructive: false };
/** The hints of an MCP tool without annotations. */
const SILENT = { readOnly: false, idempotent: false, destructive: true };

const TURN: JudgedTurn = {
  approve: [],
  untrusted: "ask",
  outside: undefined,
  isNamed: false,
  canAsk: true,
  isAllowed: false,
};

describe("a call is made, asked about or withheld", () => {
  it.each<
    [what: string, expected: string, tool: string, hints: typeof READS, turn: Partial<JudgedTurn>]
  >([
    ["nothing in view", "run", "bank.transfer", SILENT, {}],
    ["reads, outside text in view", "run", "bank.balance", READS, { outside: "history" }],
    [
      "changes, outside text in view",
      "ask untrusted",
      "bank.transfer",
      CHANGES,
      { outside: "history" },
    ],
    [
      "without annotations, outside text in view",
      "ask untrusted",
      "bank.transfer",
      SILENT,
      { outside: "input" },
    ],
    [
      "nobody can be asked",
      "withhold",
      "bank.transfer",
      CHANGES,
      { outside: "results", canAsk: false },
    ],
    [
      "the config withholds",
      "withhold",
      "bank.transfer",
      CHANGES,
      { outside: "context", untrusted: "withhold" },
    ],
    [
      "the config allows",
      "run",
      "bank.transfer",
      CHANGES,
      { outside: "context", untrusted: "allow" },
    ],
    ["named for hooks", "run", "bank.transfer", CHANGES, { outside: "input", isNamed: true }],
    [
      "named for hooks, and in approve",
      "ask rule",
      "bank.transfer",
      CHANGES,
      { outside: "input", isNamed: true, approve: ["bank.*"] },
    ],
    [
      "in approve, nothing in view",
      "ask rule",
      "bank.transfer",
      CHANGES,
      { approve: ["bank.transfer"] },
    ],
    [
      "in approve, and allowed for untrusted text",
      "ask rule",
      "bank.transfer",
      CHANGES,
      { approve: ["*"], untrusted: "allow" },
    ],
    [
      "in approve, nobody can be asked",
      "withhold",
      "bank.transfer",
      CHANGES,
      { approve: ["*"], canAsk: false },
    ],
    ["in approve and reads", "ask rule", "bank.balance", READS, { approve: ["bank.*"] }],
    [
      "taken out of approve",
      "run",
      "bank.balance",
      READS,
      { approve: ["bank.*", "!bank.balance"] },
    ],
    [
      "taken out, whatever the order",
      "run",
      "bank.balance",
      READS,
      { approve: ["!bank.balance", "bank.*"] },
    ],
    ["destructive", "ask rule", "shop.drop", SILENT, { approve: ["*:destructive"] }],
    ["not destructive", "run", "shop.add", CHANGES, { approve: ["*:destructive"] }],
    ["changing", "ask rule", "shop.add", CHANGES, { approve: ["shop.*:changing"] }],
    ["not changing", "run", "shop.list", READS, { approve: ["shop.*:changing"] }],
    ["of another source", "run", "shop.drop", SILENT, { approve: ["bank.*"] }],
    [
      "allowed for good",
      "run",
      "bank.transfer",
      SILENT,
      { approve: ["*"], outside: "input", isAllowed: true },
    ],
  ])("%s: %s", (_what, expected, tool, hints, turn) => {
    const verdict = judgeCall({ tool, hints, input: {} }, { ...TURN, ...turn });
    expect([verdict.kind, ...("reason" in verdict ? [verdict.reason] : [])].join(" ")).toBe(
      expected,
    );
  });

  it("says in a sentence what made it ask", () => {
    const ask = (turn: Partial<JudgedTurn>) =>
      judgeCall({ tool: "bank.transfer", hints: CHANGES, input: {} }, { ...TURN, ...turn });
    expect(ask({ outside: "history" })).toMatchObject({
      why: "bank.transfer may change something, and earlier turns of this conversation contain text from outside.",
    });
    expect(ask({ approve: ["bank.*"] })).toMatchObject({
      why: 'Calls of bank.transfer need approval: `approve` has "bank.*".',
    });
    expect(ask({ approve: ["bank.*"], canAsk: false })).toMatchObject({
      why: expect.stringContaining("No approver can be asked here."),
    });
  });
});

const turn = (change: Partial<TurnRecord>): TurnRecord => ({
  seq: 1,
  runId: "run_1",
  at: 1,
  hook: "api:web",
  input: [{ text: "hello", outside: false }],
  unsafe: false,
  messages: [{ role: "assistant", content: "hi" }],
  ...change,
});
const VIEW: View = {
  kind: "api",
  history: [],
  input: [],
  context: [],
  results: [],
  countsOwnResults: false,
};
const OWN = [
  { text: "Message from ann (the owner)\n", outside: false },
  { text: "good morning", outside: false, by: "owner" as const },
];
const OTHERS = [
  { text: "Message from bob\n", outside: false },
  { text: "good morning", outside: false },
];
const RESULT = {
  role: "tool",
  content: [
    { type: "tool-result", toolCallId: "1", toolName: "x", output: { type: "text", value: "y" } },
  ],
};
const user = { role: "user" as const, parts: [{ type: "text" as const, text: "and now?" }] };
const called = { role: "assistant" as const, text: "", calls: [{ id: "1", tool: "x", input: {} }] };
const output = { parts: [{ type: "text" as const, text: "y" }] };
const answered = { role: "tool" as const, callId: "1", tool: "x", output };

describe("outside text in view", () => {
  it.each<[what: string, expected: string | undefined, view: Partial<View>]>([
    ["a hook's event", "input", { kind: "hook", input: [{ text: "an order", outside: true }] }],
    [
      "a hook's event without a boundary",
      "input",
      { kind: "heartbeat", input: [{ text: "an order", outside: false, by: "sender" }] },
    ],
    [
      "the operator's words",
      undefined,
      { kind: "heartbeat", input: [{ text: "nothing has been queued", outside: false }] },
    ],
    ["the owner's message", undefined, { kind: "channel", input: OWN }],
    ["another person's message", "input", { kind: "channel", input: OTHERS }],
    [
      "the owner's message with a file",
      "input",
      { kind: "channel", input: [...OWN, { text: "name.pdf", outside: true }] },
    ],
    [
      "the owner after a summary",
      "history",
      {
        kind: "channel",
        input: OWN,
        history: [turn({ hook: "heartbeat", input: [{ text: "hook said", outside: true }] })],
      },
    ],
    [
      "the owner after another person",
      "history",
      { kind: "channel", input: OWN, history: [turn({ hook: "channels/pipe", input: OTHERS })] },
    ],
    [
      "the owner after the owner",
      undefined,
      { kind: "channel", input: OWN, history: [turn({ hook: "channels/pipe", input: OWN })] },
    ],
    [
      "the owner after a tool's result",
      "history",
      {
        kind: "channel",
        input: OWN,
        history: [turn({ hook: "channels/pipe", input: OWN, messages: [RESULT] })],
      },
    ],
    [
      "the owner, and a result in this turn",
      "results",
      { kind: "channel", input: OWN, results: [RESULT] },
    ],
    ["passages", "context", { context: [{ text: "page 1", from: "outside" }] }],
    ["the operator's context", undefined, { context: [{ text: "the date", from: "operator" }] }],
    ["a caller's message", undefined, { messages: [user] }],
    [
      "a caller's own history",
      undefined,
      { messages: [user, { role: "assistant", text: "hi", calls: [] }, user] },
    ],
    ["a caller's history with a result", "messages", { messages: [user, called, answered, user] }],
    [
      "a caller that answers a call of this turn",
      undefined,
      { messages: [user, called, answered] },
    ],
    [
      "the same, if tools.untrusted is set",
      "results",
      { messages: [user, called, answered], countsOwnResults: true },
    ],
    ["a result in this turn of the API", undefined, { messages: [user], results: [RESULT] }],
    [
      "the same, if tools.untrusted is set",
      "results",
      { messages: [user], results: [RESULT], countsOwnResults: true },
    ],
    [
      "a session of the API with a result",
      "history",
      { messages: [user], history: [turn({ messages: [RESULT] })] },
    ],
    [
      "a call of the turn before that the caller answers",
      undefined,
      { messages: [answered], history: [turn({ messages: [RESULT] })] },
    ],
    [
      "the same after an earlier turn with a result",
      "history",
      { messages: [answered], history: [turn({ messages: [RESULT] }), turn({})] },
    ],
    ["a plain session of the API", undefined, { messages: [user], history: [turn({})] }],
  ])("%s: %s", (_what, expected, view) => {
    expect(findOutside({ ...VIEW, ...view })).toBe(expected);
  });
});
