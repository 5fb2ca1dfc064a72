import { afterEach, beforeEach, expect, it, onTestFinished, vi } from "vitest";
import type { Job, StoreHandle } from "../../src/store/types.ts";
import { job } from "./suite/make.ts";
import { createDatabase, describePostgres } from "./postgres.ts";
import { postgresAddress } from "./postgres-client.ts";
import { createProxy, type Proxy } from "./proxy.ts";

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

describePostgres("a lease that may be over", () => {
  const { open, closeAll, query } = createDatabase();
  let proxy: Proxy;
  let a: StoreHandle;
  beforeEach(async () => {
    proxy = await createProxy(postgresAddress());
    a = await open((url) => {
      [url.hostname, url.port] = ["127.0.0.1", String(proxy.port)];
      // The store's own bound is longer than a test should take.
      url.searchParams.set("query_timeout", "1000");
    });
  });
  afterEach(async () => {
    await closeAll();
    proxy.close();
  });

  const take = async (): Promise<[Job, Job]> => {
    await a.store.commit((tx) => ["x", "y"].forEach((id) => tx.jobs.add(job(id, { key: id }))));
    return (await a.queue.fetch("turn", 2)) as [Job, Job];
  };
  /** True if a gateway surely has a job; undefined while that is not known. */
  const confirm = async (one: Job, ms: number): Promise<boolean | undefined> => {
    const abort = new AbortController();
    const answer = a.queue.confirm?.(one, abort.signal);
    const found = await Promise.race([answer, pause(ms)]);
    abort.abort();
    await answer;
    return found ?? undefined;
  };

  it("is confirmed without a round trip while it surely holds, and not at all while the database cannot be reached", async () => {
    const [x, y] = await take();
    proxy.set("hanging");
    expect([await confirm(x, 100), await confirm(y, 100)]).toEqual([true, true]);
    // For the gateway and for the database the last sign of life was so long ago.
    const now = performance.now.bind(performance);
    let passed = 8_000;
    vi.spyOn(performance, "now").mockImplementation(() => now() + passed);
    onTestFinished(() => void vi.restoreAllMocks());
    expect(await confirm(x, 500)).toBeUndefined();
    passed = 14_000;
    await query("UPDATE holders SET seen = seen - interval '14 seconds'");
    proxy.set("open");
    // No other gateway was there to take them.
    expect([await confirm(x, 10_000), await confirm(y, 10_000)]).toEqual([true, true]);
    proxy.set("hanging");
    expect(await confirm(x, 100)).toBe(true);
  });

  it("is lost, once the database answers again, if another gateway has freed or taken the job meanwhile", async () => {
    const [x, y] = await take();
    const lost: string[] = [];
    a.queue.onLost?.(({ id }) => lost.push(id));
    const b = await open();
    b.queue.onReady(() => undefined);
    await b.queue.recover();
    proxy.set("hanging");
    let [taken]: Job[] = [];
    for (
      const end = performance.now() + 30_000;
      !taken && performance.now() < end;
      await pause(200)
    )
      [taken] = await b.queue.fetch("turn", 1);
    expect(taken?.id).toBe("x");
    proxy.set("open");
    expect([await confirm(x, 10_000), await confirm(y, 10_000)]).toEqual([false, false]);
    // The gateway's own look at what it holds may have told of one as well.
    expect([...new Set(lost)]).toEqual(["x", "y"]);
    expect(await b.queue.confirm?.(taken as Job, new AbortController().signal)).toBe(true);
  });
});
