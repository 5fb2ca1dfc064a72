import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { manualClock, type ManualClock } from "../delivery/support.ts";
import { KEY, platformWorld, type PlatformWorld } from "./world.ts";
import type { Says } from "./model.ts";

let clock: ManualClock;
let world: PlatformWorld;
beforeEach(async () => {
  clock = manualClock();
  world = await platformWorld({ clock, timeoutSeconds: 600 });
});
afterEach(async () => {
  let isClosed = false;
  const closed = world.close().finally(() => (isClosed = true));
  await passUntil(() => isClosed);
  await closed;
});

/** Moves the time on, in steps that leave sockets time to answer. */
async function passUntil(check: () => boolean): Promise<void> {
  while (!check()) {
    await clock.advance(50);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
async function passWhile<T>(work: Promise<T>): Promise<T> {
  let isDone = false;
  void work.catch(() => undefined).finally(() => (isDone = true));
  await passUntil(() => isDone);
  return work;
}
const FAULTS: [string, Says][] = [
  ["503", { status: 503 }],
  ["429", { status: 429 }],
  ["a cut stream", { cut: true }],
];

describe("six chats at once whose provider fails each once", () => {
  describe.each([false, true])("streamed: %s", (stream) => {
    it.each(FAULTS)("are all answered: %s", async (_name, fault) => {
      let answered = 0;
      world.model.says = (_asked, call) => {
        if (call < 6) return fault;
        answered++;
        return { text: ["fi", "ne"] };
      };
      const chats = Promise.all(Array.from({ length: 6 }, () => world.chat({ stream })));
      const answers = await passWhile(chats);
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200]);
      expect(answers.map(({ content }) => content)).toEqual(answers.map(() => "fine"));
      expect(answered).toBe(6);
    });
  });
});

it("a caller that hangs up ends its wait", async () => {
  world.model.says = () => ({ status: 503 });
  const caller = new AbortController();
  const chat = fetch(`${world.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "ops", messages: [{ role: "user", content: "Say it." }] }),
    signal: caller.signal,
  });
  await passUntil(() => world.model.asked.length === 3);
  caller.abort();
  await expect(chat).rejects.toThrow();
  const run = await world.until(async () => {
    const [found] = (await world.admin("/admin/v1/runs")).body.runs;
    return found?.endedAt !== null && found;
  });
  expect(run).toMatchObject({ status: "cancelled" });
  expect(world.model.asked.length).toBeLessThan(5);
});
