import { expect, it } from "vitest";
import type { SentMessage } from "../contract/channel.ts";
import { expectResult, SEND_MS, type ChannelHarness } from "./channel-harness.ts";

/** Declares the tests of a channel whose messages can be changed while a turn runs. */
export function testStreaming(harness: () => ChannelHarness): void {
  it("changes a message and deletes it, each as often as it is asked", async () => {
    const { channel, to, sent } = harness();
    if (!channel.streaming) return;
    const signal = (): AbortSignal => AbortSignal.timeout(SEND_MS);
    const result = await channel.send({ to, text: "…", idempotencyKey: "dlv_test.live" }, signal());
    const messageId = (result.status === "sent" && result.messageIds?.[0]) || "";
    expect(messageId).not.toBe("");
    const message: SentMessage = { to, messageId };
    for (let times = 0; times < 2; times++)
      expect(
        (await channel.streaming.edit({ ...message, text: "The **first** words." }, signal()))
          .status,
      ).toBe("sent");
    expect(sent()).toHaveLength(1);
    expect(sent()[0]?.text).toMatch(/first.{0,4} words/);
    expect(sent()[0]?.text).not.toContain("…");
    for (let times = 0; times < 2; times++)
      expect((await channel.streaming.remove(message, signal())).status).toBe("sent");
    expect(sent()).toEqual([]);
    const late = await channel.streaming.edit({ ...message, text: "Too late." }, signal());
    expectResult(late);
    expect(late.status).toBe("failed");
    expect(channel.streaming.everyMs).toBeGreaterThanOrEqual(1_000);
  });
}
