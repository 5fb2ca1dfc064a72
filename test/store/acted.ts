import type { Store, StepRecord } from "../../src/store/types.ts";

const AT = Date.UTC(2026, 0, 5, 12);
const at = (seconds: number): string => new Date(AT + seconds * 1000).toISOString();

/** The steps of a run in which something of every kind has happened. */
const steps = (runId: string): StepRecord[] => [
  {
    runId,
    index: 0,
    model: "acme/large",
    messages: [
      {
        role: "assistant",
        content: [
          { type: "reasoning", text: "The order is large." },
          { type: "text", text: "I look at the order." },
          { type: "tool-call", toolCallId: "c0", toolName: "shop_read", input: {} },
        ],
      },
    ],
    finish: "tool-calls",
    usage: {
      inputTokens: 1200,
      outputTokens: 30,
      totalTokens: 1230,
      cachedInputTokens: 800,
      reasoningTokens: 10,
    },
    startedAt: AT,
    endedAt: AT + 1200,
    failedAttempts: [
      {
        at: AT,
        model: "acme/small",
        error: {
          code: "rate_limited",
          message: "slow down",
          vendor: { status: 429, code: "too_fast" },
        },
        waitedMs: 2000,
      },
      {
        at: AT + 2000,
        model: "acme/small",
        error: { code: "provider_unavailable", message: "no answer" },
      },
    ],
    offer: {
      offered: ["shop.read", "bank.refund", "mail.send"],
      leftOut: ["<b>crm</b>.*"],
      by: "hooks.tools",
    },
    calls: [
      {
        id: `${runId}.0.0`,
        modelCallId: "c0",
        tool: "shop.read",
        name: "shop_read",
        input: { order: 7, note: "a <b>bold</b> note" },
        state: "done",
        startedAt: AT + 1200,
        endedAt: AT + 1520,
        output: {
          parts: [
            { type: "text", text: "order 7: two cups" },
            {
              type: "file",
              mediaType: "image/png",
              data: Buffer.from("pixels").toString("base64"),
              filename: "cups.png",
            },
          ],
        },
        stored: { id: `res_${runId}`, length: 120_000 },
      },
      {
        id: `${runId}.0.1`,
        modelCallId: "c1",
        tool: "bank.refund",
        name: "bank_refund",
        input: { amount: 240 },
        state: "denied",
        approvalId: `apr_${runId}_1`,
      },
      {
        id: `${runId}.0.2`,
        modelCallId: "c2",
        tool: "mail.send",
        name: "mail_send",
        input: { to: "ann@example.com" },
        state: "failed",
        startedAt: AT + 1200,
        endedAt: AT + 1300,
        output: { isError: true, parts: [{ type: "text", text: "the mailbox is full" }] },
      },
    ],
  },
  {
    runId,
    index: 1,
    model: "acme/large",
    messages: [{ role: "assistant", content: "I try the bank again." }],
    finish: "tool-calls",
    usage: { inputTokens: 1400, outputTokens: 12 },
    startedAt: AT + 2000,
    endedAt: AT + 3000,
    calls: [
      {
        id: `${runId}.1.0`,
        modelCallId: "c3",
        tool: "bank.refund",
        name: "bank_refund",
        input: { amount: 100 },
        state: "waiting",
        approvalId: `apr_${runId}_2`,
      },
    ],
  },
];

/** Gives a run steps with tool calls, failed attempts, a fallback, a cut result, and approvals; the last one is open. */
export async function actIn(store: Store, runId: string): Promise<void> {
  const common = {
    runId,
    agentId: "main",
    tool: "bank.refund",
    reason: "rule",
    expiresAt: AT + 86_400_000,
  } as const;
  await store.commit((tx) => {
    for (const step of steps(runId)) tx.steps.add(step);
    tx.toolResults.add({
      id: `res_${runId}`,
      runId,
      text: `order 7: two cups ${"and a saucer ".repeat(9000)}the end`,
    });
    const why = 'the rule "bank.*" names the tool';
    tx.approvals.add({
      ...common,
      why,
      id: `apr_${runId}_1`,
      code: "7f3",
      callId: `${runId}.0.1`,
      input: { amount: 240 },
      askedAt: AT + 1200,
    });
    tx.approvals.decide(`apr_${runId}_1`, {
      verdict: "deny",
      by: "console:ann",
      at: AT + 1800,
      note: "too much",
    });
    tx.approvals.add({
      ...common,
      why,
      id: `apr_${runId}_2`,
      code: "8a1",
      callId: `${runId}.1.0`,
      input: { amount: 100 },
      askedAt: AT + 3000,
    });
    tx.runs.update(runId, {
      status: "waiting",
      endedAt: null,
      hold: {
        reason: "person",
        approvalIds: [`apr_${runId}_2`],
        since: AT + 3000,
        until: AT + 4000,
      },
    });
  });
}

/** The steps as the admin API shows them. */
export const shownSteps = (runId: string) => {
  const common = {
    reason: "rule",
    why: 'the rule "bank.*" names the tool',
    expiresAt: new Date(AT + 86_400_000).toISOString(),
  };
  return [
    {
      index: 0,
      model: "acme/large",
      insteadOf: "acme/small",
      tools:
        "tools offered: shop.read, bank.refund, mail.send; left out by hooks.tools: <b>crm</b>.*",
      finish: "tool-calls",
      usage: {
        inputTokens: 1200,
        outputTokens: 30,
        totalTokens: 1230,
        cachedInputTokens: 800,
        reasoningTokens: 10,
      },
      startedAt: at(0),
      endedAt: at(1.2),
      failedAttempts: [
        {
          at: at(0),
          model: "acme/small",
          error: {
            code: "rate_limited",
            message: "slow down",
            vendor: { status: 429, code: "too_fast" },
          },
          waitedMs: 2000,
        },
        {
          at: at(2),
          model: "acme/small",
          error: { code: "provider_unavailable", message: "no answer" },
          waitedMs: null,
        },
      ],
      thinking: "The order is large.",
      text: "I look at the order.",
      calls: [
        {
          id: `${runId}.0.0`,
          tool: "shop.read",
          name: "shop_read",
          state: "done",
          input: { order: 7, note: "a <b>bold</b> note" },
          startedAt: at(1.2),
          endedAt: at(1.52),
          output: {
            isError: false,
            parts: [
              { type: "text", text: "order 7: two cups" },
              { type: "file", mediaType: "image/png", filename: "cups.png", bytes: 6 },
            ],
          },
          stored: { id: `res_${runId}`, length: 120_000 },
          approvals: [],
        },
        {
          id: `${runId}.0.1`,
          tool: "bank.refund",
          name: "bank_refund",
          state: "denied",
          input: { amount: 240 },
          startedAt: null,
          endedAt: null,
          output: null,
          stored: null,
          approvals: [
            {
              ...common,
              id: `apr_${runId}_1`,
              code: "7f3",
              input: { amount: 240 },
              askedAt: at(1.2),
              decision: { verdict: "deny", by: "console:ann", at: at(1.8), note: "too much" },
            },
          ],
        },
        {
          id: `${runId}.0.2`,
          tool: "mail.send",
          name: "mail_send",
          state: "failed",
          input: { to: "ann@example.com" },
          startedAt: at(1.2),
          endedAt: at(1.3),
          output: { isError: true, parts: [{ type: "text", text: "the mailbox is full" }] },
          stored: null,
          approvals: [],
        },
      ],
    },
    {
      index: 1,
      model: "acme/large",
      insteadOf: null,
      tools: null,
      finish: "tool-calls",
      usage: { inputTokens: 1400, outputTokens: 12 },
      startedAt: at(2),
      endedAt: at(3),
      failedAttempts: [],
      thinking: null,
      text: "I try the bank again.",
      calls: [
        {
          id: `${runId}.1.0`,
          tool: "bank.refund",
          name: "bank_refund",
          state: "waiting",
          input: { amount: 100 },
          startedAt: null,
          endedAt: null,
          output: null,
          stored: null,
          approvals: [
            {
              ...common,
              id: `apr_${runId}_2`,
              code: "8a1",
              input: { amount: 100 },
              askedAt: at(3),
              decision: null,
            },
          ],
        },
      ],
    },
  ];
};
