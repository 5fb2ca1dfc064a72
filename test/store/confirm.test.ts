import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import type { Job, StoreHandle } from "../../src/store/types.ts";
import { job } from "./suite/make.ts";
import { silent } from "./home.ts";
import { describePostgres, madeSchema, type Schema } from "./postgres.ts";
import { createProxy, type Proxy } from "./proxy.ts";

/** Longer than a lease, and than the time in which other gateways notice that it is over. */
const LEASE_OVER_MS = 14_000;
const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

describePostgres("a lease that may be over", () => {
  let schema: Schema;
  let proxy: Proxy;
  let a: StoreHandle;
  let opened: StoreHandle[];
  const open = async (url: string): Promise<StoreHandle> => {
    const handle = await openStore({ url, clock: systemClock, log: silent });
    opened.push(handle);
    return handle;
  };
  beforeEach(async () => {
    schema = await madeSchema();
    opened = [];
    proxy = await createProxy(new URL(schema.url));
    const url = new URL(schema.url);
    [url.hostname, url.port] = ["127.0.0.1", String(proxy.port)];
    // The store's own bound is longer than a test should take.
    url.searchParams.set("query_timeout", "1000");
    a = await open(url.href);
  });
  afterEach(async () => {
    await Promise.all(opened.map((handle) => handle.store.close()));
    proxy.close();
  });

  const take = async (): Promise<[Job, Job]> => {
    await a.store.commit((tx) => ["x", "y"].forEach((id) => tx.jobs.add(job(id, { key: id }))));
    return (await a.queue.fetch("turn", 2)) as [Job, Job];
  };
  /** Whether a gateway surely has a job; undefined while that is not known. */
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
    await pause(8_000);
    expect(await confirm(x, 500)).toBeUndefined();
    await pause(LEASE_OVER_MS - 8_500);
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
    const b = await open(schema.url);
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
