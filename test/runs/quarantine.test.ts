import { expect, it } from "vitest";
import { Quarantine } from "../../src/queue/worker.ts";
import { manualClock } from "../delivery/support.ts";

function world() {
  const clock = manualClock();
  const quarantine = new Quarantine(clock);
  const running = new Set<string>();
  const leaves = new Map<string, () => void>();
  const stop = new AbortController();
  return {
    running: () => [...running].toSorted().join(" "),
    stop,
    pass: (ms: number) => clock.advance(ms),
    /** Begins a run; that of a suspect is named with a capital. */
    async begin(name: string, signal = new AbortController().signal) {
      void quarantine.enter(name !== name.toLowerCase(), signal).then((leave) => {
        if (signal.aborted) return;
        running.add(name);
        leaves.set(name, leave);
      });
      await clock.advance(0);
    },
    async end(name: string) {
      running.delete(name);
      leaves.get(name)?.();
      await clock.advance(0);
    },
  };
}

it("quarantine: a suspect runs alone, and other runs follow in their order", async () => {
  const { begin, end, running } = world();
  for (const name of ["a", "b", "S", "c"]) await begin(name);
  expect(running()).toBe("a b");
  await end("a");
  expect(running()).toBe("b");
  await end("b");
  expect(running()).toBe("S");
  await end("S");
  expect(running()).toBe("c");
});

it("quarantine: neither a slow turn before a suspect nor a slow suspect delays other runs by more than a minute", async () => {
  const { begin, running, pass } = world();
  for (const name of ["a", "S", "c"]) await begin(name);
  await pass(29_999);
  expect(running()).toBe("a");
  // It starts beside the slow one, and those that come wait for it in their turn.
  await pass(1);
  expect(running()).toBe("S a");
  await pass(29_999);
  expect(running()).toBe("S a");
  await pass(1);
  expect(running()).toBe("S a c");
  await begin("d");
  expect(running()).toBe("S a c d");
});

it("quarantine: two suspects never run together, however slow one is", async () => {
  const { begin, end, running, pass } = world();
  for (const name of ["S", "T", "c"]) await begin(name);
  await pass(60_000);
  expect(running()).toBe("S c");
  await pass(600_000);
  await begin("d");
  expect(running()).toBe("S c d");
  await end("S");
  expect(running()).toBe("T c d");
});

it("quarantine: a suspect that is cancelled while it waits delays no other run", async () => {
  const { begin, running, stop } = world();
  await begin("a");
  await begin("S", stop.signal);
  await begin("c");
  expect(running()).toBe("a");
  stop.abort();
  await begin("d");
  expect(running()).toBe("a c d");
});
