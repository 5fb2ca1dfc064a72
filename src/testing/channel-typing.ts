import { expect, it } from "vitest";
import type { SendResult, TypingPlace } from "../contract/channel.ts";
import {
  EXPECTED,
  expectResult,
  HANG_MS,
  SEND_MS,
  type ChannelHarness,
} from "./channel-harness.ts";
import { expectNoSecret, within } from "./harness.ts";

/** Declares the tests of the typing sign, for a channel that has one and whose far side can tell of it. */
export function testTyping(harness: () => ChannelHarness): void {
  const show = async (ms = SEND_MS): Promise<SendResult | undefined> => {
    const { channel, to, typing } = harness();
    if (!channel.typing || !typing) return undefined;
    const place: TypingPlace = { to, ...typing.place };
    const shown = channel.typing
      .show(place, AbortSignal.timeout(ms))
      .catch((error: unknown): SendResult => ({ status: "retry", reason: String(error) }));
    const result = await within(ms + 1_000, "typing.show", shown);
    expectResult(result);
    return result;
  };

  it("shows that the agent is typing, and sends no message by that", async () => {
    const { channel, typing, sent } = harness();
    const before = sent().length;
    const result = await show();
    if (!result) return;
    expect(result.status).toBe("sent");
    expect(typing?.signs()).toHaveLength(1);
    expect(sent()).toHaveLength(before);
    expect(channel.typing?.everyMs).toBeGreaterThanOrEqual(1_000);
  });

  it.each(["rate-limited", "unavailable", "hang"] as const)(
    "tells that the sign could not be shown: %s",
    async (fault) => {
      const { fail, retryAfterMs, secrets = [] } = harness();
      if (!fail) return;
      fail(fault);
      const result = await show(fault === "hang" ? HANG_MS : SEND_MS);
      if (!result) return;
      expect(EXPECTED[fault]).toContain(result.status);
      if (result.status === "sent") return;
      expectNoSecret(result.reason, secrets);
      // A vendor's wish counts for signs too.
      if (fault !== "rate-limited" || retryAfterMs === undefined) return;
      expect(result.status === "retry" && result.afterMs).toBeGreaterThanOrEqual(retryAfterMs);
    },
  );
}
