import { describe, expect, it } from "vitest";
import type { Channel } from "../../src/plugin/api.ts";
import { testChannel } from "../../src/testing/channel.ts";
import { load, userFolder } from "./support.ts";

async function open(): Promise<{ channel: Channel; printed: string[] }> {
  const { channels, printed } = await load(userFolder({}).dir, { channels: { console: {} } });
  const found = channels.get("console");
  if (!found) throw new Error("the console is not there");
  return { channel: found.channel, printed };
}

testChannel("console", async () => {
  const { channel, printed } = await open();
  const sent = () =>
    printed.map((text) => ({ to: /── reply to (.*) ──/.exec(text)?.[1] ?? "", text }));
  return {
    channel,
    to: "terminal",
    malformed: ["two\nlines", "x".repeat(101), "bell\u0007"],
    sent,
  };
});

describe("the console", () => {
  it("shows control characters instead of sending them to the terminal", async () => {
    const { channel, printed } = await open();
    await channel.send(
      { to: "terminal", text: "a\u001b]0;owned\u0007b\r\nc\u009bd\te", idempotencyKey: "k" },
      AbortSignal.timeout(1000),
    );
    expect(printed).toEqual(["\n── reply to terminal ──\na\\x1b]0;owned\\x07b\nc\\x9bd\te\n"]);
  });
});
