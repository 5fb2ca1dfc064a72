import { expect, it } from "vitest";
import type {
  Channel,
  ChannelHost,
  ReceivedMessage,
  SendResult,
  TypingPlace,
  Verdict,
} from "../contract/channel.ts";
import { parseDecision } from "../vocabulary/decision.ts";
import { expectNoSecret, expectText, within, type Harness } from "./harness.ts";

/** Ways in which the far side of a channel may fail. */
export type Fault =
  | "rate-limited"
  | "unavailable"
  | "cut-connection"
  | "hang"
  | "bad-credential"
  | "no-such-recipient";

/** A channel with its far side, which may be a local server or nothing at all. */
export interface ChannelHarness extends Harness {
  channel: Channel;
  /** A recipient that exists. */
  to: string;
  /** Other ways to write `to`, which `parseRecipient` turns into `to`. */
  spellings?: readonly string[];
  /** Not a recipient, whatever the far side says. Default: a blank one. */
  malformed?: readonly string[];
  /** The messages that have arrived at the far side, oldest first, in their current state: with `streaming`, messages change and go. `key`: the idempotency key, for vendors that know one. */
  sent(): { to: string; text: string; key?: string | undefined }[];
  /** Files that have arrived at the far side. Give it for a channel with `sendFile`. */
  files?(): readonly { name: string; bytes: Uint8Array }[];
  /** The signs that arrived at the far side, and what `show` needs besides `to`. Give it for a channel with `typing`. */
  typing?: { place?: Omit<TypingPlace, "to">; signs(): readonly unknown[] };
  /** Makes the next sends fail in this way; absent for channels that have no far side. */
  fail?(fault: Fault): void;
  /** The wait in milliseconds that the far side asks for when it is rate-limited. */
  retryAfterMs?: number;
  /** Texts that may not be in any reason: tokens and the like. */
  secrets?: readonly string[];
  /**
   * Writes this text on the channel, to the agent. If the vendor posts messages to a webhook, returns its request. Give it
   * for a channel that receives.
   */
  write?(text: string): Promise<Request | undefined>;
  /** The labels of the buttons that the last message has now. Give it, and `press`, for a channel that asks. */
  buttons?(): readonly string[];
  /** A person presses the button of the last message. If the vendor posts presses to a webhook, returns its request. */
  press?(label: string, by: "approver" | "stranger"): Promise<Request | undefined>;
  /** The webhook's request from somebody else, whom the channel must refuse. */
  forged?(): Promise<Request>;
}

/** Which results are right for each fault: what may pass is tried again, what cannot is not. */
export const EXPECTED: Record<Fault, readonly SendResult["status"][]> = {
  "rate-limited": ["retry"],
  unavailable: ["retry", "unknown"],
  "cut-connection": ["retry", "unknown"],
  hang: ["retry", "unknown"],
  "bad-credential": ["failed"],
  "no-such-recipient": ["failed"],
};
const HANG_MS = 200;
export const SEND_MS = 5_000;
export const MARK = "body-mark-7f3a";

/** Expects one of the four results, with the fields that it has and no others. */
export function expectResult(result: SendResult): void {
  switch (result.status) {
    case "sent":
      for (const id of result.messageIds ?? []) expectText(id);
      return;
    case "retry":
      expectText(result.reason);
      if (result.afterMs !== undefined) expect(result.afterMs).toBeGreaterThanOrEqual(0);
      return;
    default:
      expect(["failed", "unknown"]).toContain(result.status);
      expectText(result.reason);
  }
}

/** Resolves to the result of a send, as the gateway takes it: an error counts as `retry`, but it must come soon after the signal. */
export async function getResult(
  what: string,
  ms: number,
  start: (signal: AbortSignal) => Promise<SendResult>,
): Promise<SendResult> {
  const sending = start(AbortSignal.timeout(ms)).catch((error: unknown): SendResult => {
    expect(error).toBeInstanceOf(Error);
    return { status: "retry", reason: (error as Error).message || "threw" };
  });
  const result = await within(ms + 1_000, what, sending);
  expectResult(result);
  return result;
}

/**
 * Declares that a channel answers each of the faults rightly, without a secret in a reason.
 * @param what the thing that is sent, as the names of the tests have it
 * @param send sends it within so many milliseconds; undefined if the channel cannot.
 */
export function testFaults(
  harness: () => ChannelHarness,
  what: string,
  send: (ms: number) => Promise<SendResult> | undefined,
  faults = Object.keys(EXPECTED) as Fault[],
): void {
  for (const fault of faults)
    it(`answers ${EXPECTED[fault].join(" or ")} to${what}: ${fault}`, async () => {
      const { fail, retryAfterMs = 0, secrets = [] } = harness();
      if (!fail) return;
      fail(fault);
      const result = await send(fault === "hang" ? HANG_MS : SEND_MS);
      if (!result) return;
      expect(EXPECTED[fault]).toContain(result.status);
      if (result.status === "sent") return;
      expectNoSecret(result.reason, [MARK, ...secrets]);
      // The vendor's wish.
      if (fault === "rate-limited" && result.status === "retry" && retryAfterMs > 0)
        expect(result.afterMs).toBeGreaterThanOrEqual(retryAfterMs);
    });
}

/** A decision, as it reached the gateway. */
interface Decided {
  from: string;
  verdict: Verdict;
  code: string;
}

/** A gateway that keeps what it is handed. */
export function createHost(): {
  host: ChannelHost;
  received: ReceivedMessage[];
  decided: Decided[];
  reports: string[];
} {
  const decided: Decided[] = [];
  const received: ReceivedMessage[] = [];
  const reports: string[] = [];
  let place: string | undefined;
  const host: ChannelHost = {
    // A vendor may make a message of a press.
    async receive(message) {
      const decision =
        "skipped" in message ? undefined : parseDecision(message.parts[0]?.text ?? "");
      if (decision && "from" in message)
        decided.push({ from: message.from, verdict: decision.verdict, code: decision.code });
      else received.push(message);
    },
    async decide({ from, verdict, code }) {
      decided.push({ from, verdict, code });
      return { text: "Approved." };
    },
    notDelivered: async () => undefined,
    report: ({ message }) => void reports.push(message),
    cursor: async () => place,
    saveCursor: async (cursor) => void (place = cursor),
  };
  return { host, received, decided, reports };
}
