import { describe, expect, it } from "vitest";
import { PullWorker } from "../../src/queue/worker.ts";
import type { Job } from "../../src/store/types.ts";
import { systemClock } from "../../src/core/clock.ts";

describe("a job that is taken again by the commit that puts it back", () => {
  it("can be aborted during its second start", async () => {
    const putBack = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<unknown>();
    const lines: (() => Promise<Job[]>)[] = [
      async () => [job(1)],
      // As in one transaction: what the first start has put back is taken at once.
      () => putBack.promise.then(() => [job(2)]),
    ];
    const worker = new PullWorker({
      store: { commit: async () => true },
      queue: { fetch: async () => (await lines.shift()?.()) ?? [], onReady: () => () => undefined },
      clock: systemClock,
      log: { warn() {}, error() {} } as never,
      kind: "turn",
      limit: () => 2,
      async execute({ lease }, signal) {
        if (lease === 1) return putBack.promise.then(() => Promise.resolve());
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        ended.resolve(signal.reason);
      },
    });
    worker.start();
    await new Promise(setImmediate);
    putBack.resolve();
    await new Promise(setImmediate);
    expect(worker.active.get("run")?.lease).toBe(2);
    worker.active.get("run")?.abort.abort("cancel");
    expect(await ended.promise).toBe("cancel");
    await worker.stop(0);
    expect(worker.active.size).toBe(0);
  });
});

const job = (lease: number): Job => ({
  id: "run",
  kind: "turn",
  key: "session",
  data: {},
  attempts: lease,
  enqueuedAt: 0,
  lease,
});
