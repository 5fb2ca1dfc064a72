import type { Store, StepRecord } from "../../src/store/types.ts";

const AT = Date.UTC(2026, 0, 5, 12);
const at = (seconds: number): string => new Date(AT + seconds * 1000).toISOString();

const USAGE = {
  inputTokens: 1200,
  outputTokens: 30,
  totalTokens: 1230,
  cachedInputTokens: 800,
  reasoningTokens: 10,
};
const LESS_USAGE = { inputTokens: 1400, outputTokens: 12 };
const TOO_FAST = {
  model: "acme/small",
  error: {
    code: "rate_limited" as const,
    message: "slow down",
    vendor: { status: 429, code: "too_fast" },
  },
  waitedMs: 2000,
};
const AWAY = {
  model: "acme/small",
  error: { code: "provider_unavailable" as const, message: "no answer" },
};
const CUPS = { type: "text" as const, text: "order 7: two cups" };
const PICTURE = { type: "file" as const, mediaType: "image/png", filename: "cups.png" };
const FULL = { isError: true, parts: [{ type: "text" as const, text: "the mailbox is full" }] };

/** The calls of a run as the model made them; the ids of others begin with theirs. */
const getCalls = (runId: string) =>
  ({
    read: {
      id: `${runId}.0.0`,
      tool: "shop.read",
      name: "shop_read",
      state: "done",
      input: { order: 7, note: "a <b>bold</b> note" },
      stored: { id: `res_${runId}`, length: 120_000 },
    },
    refund: {
      id: `${runId}.0.1`,
      tool: "bank.refund",
      name: "bank_refund",
      state: "denied",
      input: { amount: 240 },
    },
    mail: {
      id: `${runId}.0.2`,
      tool: "mail.send",
      name: "mail_send",
      state: "failed",
      input: { to: "ann@example.com" },
      output: FULL,
    },
    smaller: {
      id: `${runId}.1.0`,
      tool: "bank.refund",
      name: "bank_refund",
      state: "waiting",
      input: { amount: 100 },
    },
  }) as const;

/** The steps of a run in which something of every kind has happened. */
function buildSteps(runId: string): StepRecord[] {
  const { read, refund, mail, smaller } = getCalls(runId);
  const common = { runId, model: "acme/large", finish: "tool-calls" as const };
  const words = [
    { type: "reasoning", text: "The order is large." },
    { type: "text", text: "I look at the order." },
    { type: "tool-call", toolCallId: "c0", toolName: "shop_read", input: {} },
  ];
  const pixels = Buffer.from("pixels").toString("base64");
  return [
    {
      ...common,
      index: 0,
      messages: [{ role: "assistant", content: words }],
      usage: USAGE,
      startedAt: AT,
      endedAt: AT + 1200,
      failedAttempts: [
        { at: AT, ...TOO_FAST },
        { at: AT + 2000, ...AWAY },
      ],
      offer: {
        offered: ["shop.read", "bank.refund", "mail.send"],
        leftOut: ["<b>crm</b>.*"],
        by: "hooks.tools",
      },
      calls: [
        {
          ...read,
          modelCallId: "c0",
          startedAt: AT + 1200,
          endedAt: AT + 1520,
          output: { parts: [CUPS, { ...PICTURE, data: pixels }] },
        },
        { ...refund, modelCallId: "c1", approvalId: `apr_${runId}_1` },
        { ...mail, modelCallId: "c2", startedAt: AT + 1200, endedAt: AT + 1300 },
      ],
    },
    {
      ...common,
      index: 1,
      messages: [{ role: "assistant", content: "I try the bank again." }],
      usage: LESS_USAGE,
      startedAt: AT + 2000,
      endedAt: AT + 3000,
      calls: [{ ...smaller, modelCallId: "c3", approvalId: `apr_${runId}_2` }],
    },
  ];
}

const RULE = { reason: "rule" as const, why: 'the rule "bank.*" names the tool' };
const EXPIRES_AT = AT + 86_400_000;

/** Gives a run steps with tool calls, failed attempts, a fallback, a cut result, and approvals; the last one is open. */
export async function actIn(store: Store, runId: string): Promise<void> {
  const { refund, smaller } = getCalls(runId);
  const common = { ...RULE, runId, agentId: "main", tool: "bank.refund", expiresAt: EXPIRES_AT };
  const [denied, open] = [`apr_${runId}_1`, `apr_${runId}_2`];
  await store.commit((tx) => {
    for (const step of buildSteps(runId)) tx.steps.add(step);
    const text = `order 7: two cups ${"and a saucer ".repeat(9000)}the end`;
    tx.toolResults.add({ id: `res_${runId}`, runId, text });
    for (const [id, code, { id: callId, input }, askedAt] of [
      [denied, "7f3", refund, AT + 1200],
      [open, "8a1", smaller, AT + 3000],
    ] as const)
      tx.approvals.add({ ...common, id, code, callId, input, askedAt });
    const decision = {
      verdict: "deny",
      by: "console:ann",
      at: AT + 1800,
      note: "too much",
    } as const;
    tx.approvals.decide(denied, decision);
    tx.runs.update(runId, {
      status: "waiting",
      endedAt: null,
      hold: { reason: "person", approvalIds: [open], since: AT + 3000, until: AT + 4000 },
    });
  });
}

/** The steps as the admin API shows them. */
export function shownSteps(runId: string) {
  const { read, refund, mail, smaller } = getCalls(runId);
  const none = { startedAt: null, endedAt: null, output: null, stored: null, approvals: [] };
  const approval = { ...RULE, expiresAt: new Date(EXPIRES_AT).toISOString() };
  const decision = { verdict: "deny", by: "console:ann", at: at(1.8), note: "too much" };
  const common = { model: "acme/large", finish: "tool-calls" };
  return [
    {
      ...common,
      index: 0,
      insteadOf: "acme/small",
      tools:
        "tools offered: shop.read, bank.refund, mail.send; left out by hooks.tools: <b>crm</b>.*",
      usage: USAGE,
      startedAt: at(0),
      endedAt: at(1.2),
      failedAttempts: [
        { at: at(0), ...TOO_FAST },
        { at: at(2), ...AWAY, waitedMs: null },
      ],
      thinking: "The order is large.",
      text: "I look at the order.",
      calls: [
        {
          ...none,
          ...read,
          startedAt: at(1.2),
          endedAt: at(1.52),
          output: { isError: false, parts: [CUPS, { ...PICTURE, bytes: 6 }] },
        },
        {
          ...none,
          ...refund,
          approvals: [
            {
              ...approval,
              id: `apr_${runId}_1`,
              code: "7f3",
              input: refund.input,
              askedAt: at(1.2),
              decision,
            },
          ],
        },
        { ...none, ...mail, startedAt: at(1.2), endedAt: at(1.3) },
      ],
    },
    {
      ...common,
      index: 1,
      insteadOf: null,
      tools: null,
      usage: LESS_USAGE,
      startedAt: at(2),
      endedAt: at(3),
      failedAttempts: [],
      thinking: null,
      text: "I try the bank again.",
      calls: [
        {
          ...none,
          ...smaller,
          approvals: [
            {
              ...approval,
              id: `apr_${runId}_2`,
              code: "8a1",
              input: smaller.input,
              askedAt: at(3),
              decision: null,
            },
          ],
        },
      ],
    },
  ];
}
