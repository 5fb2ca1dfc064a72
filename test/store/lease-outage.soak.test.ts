import { expect, it } from "vitest";
import type { Job, StoreHandle } from "../../src/store/types.ts";
import { job } from "./suite/make.ts";
import { createDatabase, describePostgres } from "./postgres.ts";
import { postgresAddress } from "./postgres-client.ts";
import { createProxy } from "./proxy.ts";

async function until(done: () => boolean | Promise<boolean>, ms: number): Promise<void> {
  for (const end = Date.now() + ms; !(await done()) && Date.now() < end;)
    await new Promise((resolve) => setTimeout(resolve, 20));
}

describePostgres("a gateway", () => {
  const { open, closeAll } = createDatabase();

  it("that was cut off for longer than a lease frees no job of another gateway that was cut off too", async () => {
    const proxies = await Promise.all([0, 1].map(() => createProxy(postgresAddress())));
    const [a, b] = (await Promise.all(
      proxies.map((proxy) => open((url) => (url.port = String(proxy.port)))),
    )) as [StoreHandle, StoreHandle];
    await a.store.commit((tx) => tx.jobs.add(job("one")));
    const [held] = await a.queue.fetch("turn", 1);
    const look = (): Promise<Job[]> => b.queue.fetch("turn", 1).catch(() => []);
    expect([held?.id, await look()]).toEqual(["one", []]);
    for (const proxy of proxies) proxy.set("hanging");
    await new Promise((resolve) => setTimeout(resolve, 13_000));
    proxies[1]?.set("open");
    await until(() => b.cluster.reachable(), 20_000);
    // It has looked for jobs of the dead by then, as it does every few seconds, and the other one has time to be heard of.
    const taken: Job[] = [];
    await until(async () => taken.push(...(await look())) > 0, 4000);
    proxies[0]?.set("open");
    await until(() => a.cluster.reachable(), 20_000);
    await until(async () => taken.push(...(await look())) > 0, 7000);
    expect(taken).toEqual([]);
    expect(await a.store.commit((tx) => tx.jobs.settle(held as Job), held)).toBe(true);
    await closeAll();
    for (const proxy of proxies) proxy.close();
  });
});
