import { expect, it } from "vitest";
import type { ApprovalQuestion, SendResult } from "../contract/channel.ts";
import {
  createHost,
  getResult,
  MARK,
  SEND_MS,
  testFaults,
  type ChannelHarness,
} from "./channel-harness.ts";
import { until, within } from "./harness.ts";

const QUESTION: Omit<ApprovalQuestion, "to" | "idempotencyKey"> = {
  code: "7f3",
  text: `**Approval 7f3**: the agent \`main\` wants to call \`bank.transfer\`.\n\n\`\`\`\n{ "to": "${MARK}" }\n\`\`\`\n\nWhy it asks: a rule.`,
  instruction: 'Reply "approve 7f3" or "deny 7f3".',
  verdicts: [
    { verdict: "approve", label: "Approve" },
    { verdict: "deny", label: "Deny" },
  ],
  expiresAt: 4_102_444_800_000,
};

/** Declares the tests of a channel that asks with buttons. */
export function testAsking(harness: () => ChannelHarness): void {
  let asked = 0;
  const ask = (ms = SEND_MS): Promise<SendResult> | undefined => {
    const { channel, to } = harness();
    const question = { ...QUESTION, to, idempotencyKey: `dlv_ask.${asked++}` };
    const { ask: start } = channel;
    return start && getResult("ask", ms, async (signal) => start.call(channel, question, signal));
  };

  /** Ends a question, and once more, as after a restart. */
  const endTwice = async (question: Extract<SendResult, { status: "sent" }>): Promise<void> => {
    const { channel, to } = harness();
    const text = `${QUESTION.text}\n\n**Approved** by ann.`;
    const ended = { to, messageIds: question.messageIds ?? [], text };
    for (let times = 0; times < 2; times++) {
      const result = await channel.endQuestion?.(ended, AbortSignal.timeout(SEND_MS));
      expect(result?.status).toBe("sent");
    }
  };

  it("asks with a button for each verdict, passes on who pressed which, and takes the buttons away", async () => {
    const { channel, buttons, press, to, sent } = harness();
    if (!channel.ask || !buttons || !press) return;
    const { host, decided } = createHost();
    const ending = new AbortController();
    const listening = channel.listen?.(ending.signal, host);
    const result = await ask();
    expect([result?.status, sent().length, sent()[0]?.to]).toEqual(["sent", 1, to]);
    for (const word of ["7f3", "bank.transfer", MARK]) expect(sent()[0]?.text).toContain(word);
    expect(buttons()).toEqual(["Approve", "Deny"]);
    for (const [label, by] of [
      ["Approve", "approver"],
      ["Deny", "stranger"],
    ] as const) {
      const before = decided.length;
      const request = await press(label, by);
      if (request) expect((await channel.request?.(request, host))?.status).toBeLessThan(300);
      await until(() => decided.length > before);
    }
    expect(decided).toMatchObject([
      { verdict: "approve", code: "7f3" },
      { verdict: "deny", code: "7f3" },
    ]);
    // The name of the person who pressed is the vendor's to say: the button is the same for everybody.
    expect(decided[0]?.from).not.toBe(decided[1]?.from);
    if (channel.endQuestion && result?.status === "sent") {
      await endTwice(result);
      expect([buttons(), sent().length, sent()[0]?.text]).toEqual([
        [],
        1,
        expect.stringContaining("Approved"),
      ]);
    }
    ending.abort();
    await within(SEND_MS, "the end of `listen`", listening);
  });

  testFaults(harness, " a question and", ask);
}
