import { setTimeout as sleep } from "node:timers/promises";
import { WebClient } from "@slack/web-api";
import { describe, expect, it, onTestFinished } from "vitest";
import slack from "../../plugins/slack/index.ts";
import type { SendResult } from "../../src/plugin/api.ts";
import { openPlugin } from "./open.ts";
import { BOT_TOKEN, startSlack } from "./slack-server.ts";

const KEY = "dlv_1.0";
const THREAD = "1700000000.000009";

/** A vendor, and the channel of a gateway that does not know what a killed process has posted. */
async function openAfterCrash(thread?: string) {
  const server = await startSlack();
  onTestFinished(() => server.close());
  const { channel, clock } = openPlugin(slack, { botToken: BOT_TOKEN, apiUrl: server.url });
  const client = new WebClient(BOT_TOKEN, { slackApiUrl: server.url });
  const place = { channel: "C0123ABC", ...(thread !== undefined && { thread_ts: thread }) };
  return {
    server,
    /** Posts a message as the killed process had done. */
    post: (text: string, key: string) =>
      client.apiCall("chat.postMessage", {
        ...place,
        text,
        metadata: { event_type: "rouse_reply", event_payload: { key } },
      }),
    /** Adds newer posts of other people. */
    async addNewer(count: number): Promise<void> {
      await client.apiCall("chat.postMessage", { ...place, text: "newer" });
      const last = server.posts.at(-1);
      if (last) server.posts.push(...Array.from({ length: count - 1 }, () => last));
    },
    /** Sends what may have been posted `ago` milliseconds ago. */
    async resend(ago: number): Promise<SendResult | undefined> {
      const message = {
        to: "C0123ABC",
        text: "reply",
        idempotencyKey: KEY,
        ...(thread !== undefined && { thread }),
      };
      return channel.resend?.(message, clock.time - ago, AbortSignal.timeout(60_000));
    },
    replies: () => server.posts.filter(({ text }) => text === "reply").length,
  };
}

describe("Slack after a crash", () => {
  it.each([undefined, THREAD])(
    "finds a post behind many newer ones (thread: %s)",
    async (thread) => {
      const { post, addNewer, resend, replies } = await openAfterCrash(thread);
      if (thread === undefined) await post("reply", KEY);
      await addNewer(700);
      // A thread is read from its oldest message on.
      if (thread !== undefined) await post("reply", KEY);
      expect(await resend(30_000)).toMatchObject({ status: "sent" });
      expect(replies()).toBe(1);
    },
  );

  it("does not know what became of a post if too many newer ones are to be read", async () => {
    const { post, addNewer, resend, replies } = await openAfterCrash();
    await post("reply", KEY);
    await addNewer(1_100);
    expect(await resend(30_000)).toMatchObject({ status: "unknown" });
    expect(replies()).toBe(1);
  });

  it("sends a post that is not there, once", async () => {
    const { post, resend, replies } = await openAfterCrash();
    await post("the piece before", "dlv_1.1");
    expect(await resend(30_000)).toMatchObject({ status: "sent" });
    expect(await resend(30_000)).toMatchObject({ status: "sent" });
    expect(replies()).toBe(1);
  });

  it("waits for a post that the vendor makes only after the first looks for it", async () => {
    const { server, post, resend, replies } = await openAfterCrash();
    // The vendor still works on the request of the killed process.
    const late = sleep(2_500).then(() => post("reply", KEY));
    expect(await resend(4_000)).toMatchObject({ status: "sent" });
    await late;
    expect(server.calls.filter((call) => call === "conversations.history").length).toBeGreaterThan(
      1,
    );
    expect(replies()).toBe(1);
  });
});
