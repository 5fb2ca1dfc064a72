import type { Source, SourceHost } from "../../../src/plugin/api.ts";
import { testSource } from "../../../src/testing/index.ts";

interface Flaw {
  /** Does not end with its signal. */
  deafToAbort?: true;
  request?: NonNullable<Source["request"]>;
}
type Round = (after: number, events: string[], host: SourceHost) => Promise<void>;

/** Hands over what came after the cursor. A source that is sound does it in this order. */
const sound: Round = async (after, events, host) => {
  const text = events[after];
  if (text === undefined) return;
  const { status } = await host.hook("acme", { text });
  if (status < 300) await host.saveCursor(String(after + 1));
};

const flaws: [string, Round, Flaw?][] = [
  [
    "hands events over to a hook path",
    async (after, events, host) => {
      await sound(after, events, host);
      host.report({ ok: true, message: "connected with secret-token" });
    },
  ],
  ["hands events over to a hook path", sound, { deafToAbort: true }],
  [
    "hands an event over again that the gateway could not take",
    async (after, events, host) => {
      if (events[after] === undefined) return;
      await host.saveCursor(String(after + 1));
      await host.hook("acme", { text: events[after] });
    },
  ],
  [
    "goes on where it stopped",
    async (_, events, host) => {
      for (const text of events) await host.hook("acme", { text });
    },
  ],
  [
    "answers 4xx to a webhook of somebody else",
    sound,
    { request: async () => new Response("welcome") },
  ],
];
for (const [expected, round, { deafToAbort, request } = {}] of flaws)
  testSource(expected, () => {
    const events: string[] = [];
    const create = (): Source => ({
      async start(signal, host) {
        while (deafToAbort || !signal.aborted) {
          await round(Number((await host.cursor()) ?? 0), events, host);
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
      },
      ...(request && { request }),
    });
    return {
      create,
      emit: async (text) => void events.push(text),
      ...(request && {
        forged: async () => new Request("http://127.0.0.1/channels/acme", { method: "POST" }),
      }),
      secrets: ["secret-token"],
    };
  });
