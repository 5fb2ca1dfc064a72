import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { splitText } from "../../src/delivery/split.ts";
import type { Channel, OutgoingMessage, SendResult } from "../../src/plugin/api.ts";

/** Ways in which the far side of a channel may fail. */
export type Fault = "rate-limited" | "unavailable" | "cut-connection" | "hang" | "bad-credential" | "no-such-recipient";

/** A channel with its far side, which may be a local server or nothing at all. */
export interface ChannelHarness {
  channel: Channel;
  /** A recipient that exists. */
  to: string;
  /** Not a recipient, whatever the far side says. Default: a blank one. */
  malformed?: string[];
  /** What has arrived at the far side, oldest first. */
  sent(): { to: string; text: string }[];
  /** Makes the next sends fail in this way; absent for channels that have no far side. */
  fail?(fault: Fault): void;
  /** The wait that the far side asks for when it is rate-limited. */
  retryAfterMs?: number;
  /** What may not be in any reason: tokens and the like. */
  secrets?: string[];
  close?(): Promise<void> | void;
}

/** Which results are right for each fault: what may pass is tried again, what cannot is not. */
const EXPECTED: Record<Fault, readonly SendResult["status"][]> = {
  "rate-limited": ["retry"],
  unavailable: ["retry", "unknown"],
  "cut-connection": ["retry", "unknown"],
  hang: ["retry", "unknown"],
  "bad-credential": ["failed"],
  "no-such-recipient": ["failed"],
};
const HANG_MS = 200;
const MARK = "body-mark-7f3a";

/** What every channel plugin holds to. A plugin's test is this call and its recorded requests. */
export function channelContract(name: string, open: () => Promise<ChannelHarness> | ChannelHarness): void {
  describe(`channel ${name}`, () => {
    let harness: ChannelHarness;
    let count = 0;
    beforeEach(async () => {
      harness = await open();
    });
    afterEach(async () => {
      await harness.close?.();
    });

    const message = (text: string): OutgoingMessage => ({ to: harness.to, text, idempotencyKey: `dlv_test.${count++}` });
    const send = (text: string, signal = AbortSignal.timeout(5_000)): Promise<SendResult> => harness.channel.send(message(text), signal);

    it("sends a text and says so", async () => {
      const result = await send("Hello, this is the reply.");
      expect(result.status).toBe("sent");
      const sent = harness.sent();
      expect(sent).toHaveLength(1);
      expect(sent[0]?.to).toBe(harness.to);
      expect(sent[0]?.text).toContain("Hello, this is the reply.");
      if (result.status === "sent") for (const id of result.messageIds ?? []) expect(id).toMatch(/\S/);
    });

    it("loses no text to its dialect", async () => {
      const words = ["1 < 2 && 3 > 2", "a_b*c", "\\o/", "`x = 1`", "👩‍👩‍👧‍👦", "שלום", "日本語", "100%", "#5", "[x]"];
      expect((await send(words.join("\n\n"))).status).toBe("sent");
      const arrived = (harness.sent()[0]?.text ?? "")
        .replaceAll("&lt;", "<")
        .replaceAll("&gt;", ">")
        .replaceAll("&amp;", "&")
        .replace(/\\(?=[^\w\s])|<\/?code>|`/g, "");
      for (const word of words) expect(arrived).toContain(word.replace(/\\(?=[^\w\s])|`/g, ""));
    });

    it("takes a piece of exactly its limit, and all pieces of a long text in order", async () => {
      const { limit } = harness.channel;
      if (limit === undefined) return;
      expect((await send("x".repeat(limit))).status).toBe("sent");
      const text = Array.from(
        { length: Math.ceil((limit * 2.5) / 60) },
        (_, index) => `Line ${index}: <b> & some words to fill it up, as replies do.`,
      ).join("\n");
      for (const piece of splitText(text, limit)) expect((await send(piece)).status).toBe("sent");
      const arrived = harness
        .sent()
        .map((entry) => entry.text)
        .join("\n");
      const order = [...arrived.matchAll(/Line (\d+):/g)].map((match) => Number(match[1]));
      expect(order).toEqual(text.split("\n").map((_, index) => index));
    });

    it("normalises a recipient once and for all, and refuses what is none", () => {
      const { channel, to, malformed = [] } = harness;
      const parse = channel.parseRecipient?.bind(channel);
      if (!parse) return;
      expect(parse(to)).toEqual({ ok: true, to });
      for (const wrong of malformed) expect(parse(wrong)).toMatchObject({ ok: false, message: expect.stringMatching(/\S/) as unknown });
      if (channel.defaultTo !== undefined) expect(parse(channel.defaultTo).ok).toBe(true);
    });

    for (const fault of Object.keys(EXPECTED) as Fault[]) {
      it(`answers ${EXPECTED[fault].join(" or ")} to: ${fault}`, async () => {
        if (!harness.fail) return;
        harness.fail(fault);
        const signal = AbortSignal.timeout(fault === "hang" ? HANG_MS : 5_000);
        const begun = performance.now();
        // A thrown error counts as `retry`: the engine makes up for plugins that let `fetch` reject.
        const result = await send(`The text ${MARK} stays out of reasons.`, signal).catch((): SendResult => ({
          status: "retry",
          reason: "threw",
        }));
        expect(EXPECTED[fault]).toContain(result.status);
        if (fault === "hang") expect(performance.now() - begun).toBeLessThan(HANG_MS + 1_000);
        if (fault === "rate-limited" && result.status === "retry" && harness.retryAfterMs !== undefined)
          expect(result.afterMs).toBeGreaterThanOrEqual(harness.retryAfterMs);
        if (result.status === "sent") return;
        expect(result.reason).toMatch(/\S/);
        for (const secret of [MARK, ...(harness.secrets ?? [])]) expect(result.reason).not.toContain(secret);
      });
    }

    it("tells whether it can be reached", async () => {
      if (!harness.channel.probe) return;
      expect(await harness.channel.probe(AbortSignal.timeout(5_000))).toEqual({ ok: true });
      harness.fail?.("bad-credential");
      if (harness.fail)
        expect(await harness.channel.probe(AbortSignal.timeout(5_000)).catch(() => ({ ok: false }))).toMatchObject({ ok: false });
    });
  });
}
