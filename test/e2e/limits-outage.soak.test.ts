import { afterEach, beforeEach, expect, it } from "vitest";
import { createProxy, type Proxy } from "../store/proxy.ts";
import { describePostgres, newSchema, plainly, type Schema } from "../store/postgres.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { createWorld, TOKEN, type World } from "./world.ts";

/** A lease, and a little more. */
const SILENT_MS = 10_300;
const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

describePostgres("a limit of one run at a time", () => {
  let schema: Schema;
  let provider: Provider;
  let proxies: Proxy[] = [];
  let worlds: World[] = [];
  beforeEach(async () => {
    schema = newSchema();
    provider = await createProvider();
  });
  afterEach(async () => {
    await Promise.all(worlds.splice(0).map((world) => world.stop()));
    for (const proxy of proxies.splice(0)) proxy.close();
    await provider.close();
    await schema.drop();
  });

  const open = async (listen?: (bytes: Buffer) => void): Promise<[World, Proxy]> => {
    const proxy = await createProxy(new URL(schema.url), listen && (() => listen));
    proxies.push(proxy);
    const url = new URL(schema.url);
    [url.hostname, url.port] = ["127.0.0.1", String(proxy.port)];
    url.searchParams.set("query_timeout", "1000");
    const mappings = [
      {
        id: "ask",
        match: { path: "ask" },
        messageTemplate: "{{n}}",
        deliver: false,
        wakeMode: "next-heartbeat",
        limits: { concurrent: 1 },
      },
    ];
    const world = await createWorld({
      config: {
        store: { url: url.href },
        hooks: { token: TOKEN, mappings },
        ...modelConfig(provider),
      },
    });
    worlds.push(world);
    return [world, proxy];
  };
  const until = async (done: () => Promise<boolean> | boolean, ms: number): Promise<void> => {
    for (const end = performance.now() + ms; !(await done()) && performance.now() < end;)
      await pause(50);
  };
  const accept = async (world: World, n: number): Promise<void> => {
    await until(async () => (await world.post("/hooks/ask", { n })).status === 202, 60_000);
  };
  const countSilent = async (): Promise<number> => {
    const text = `SELECT count(*)::int AS n FROM ${schema.name}.holders WHERE seen <= now() - interval '${SILENT_MS} ms'`;
    return (await plainly((client) => client.query(text))).rows[0].n as number;
  };

  it(
    "is kept where a start is committed late, by a gateway that was silent for longer than a lease",
    { timeout: 180_000 },
    async () => {
      let underWay = 0;
      let most = 0;
      let release = (): void => undefined;
      const released = new Promise<void>((done) => (release = done));
      provider.answer = async () => {
        most = Math.max(most, ++underWay);
        await released;
        underWay--;
        return "fine";
      };
      let isCut = false;
      const [a, toA] = await open((bytes) => {
        if (isCut || !bytes.includes('"status":"running"')) return;
        // The commit that would start the run is lost.
        isCut = true;
        toA.set("hanging");
      });
      const [b, toB] = await open();
      toB.set("hanging");
      await accept(a, 1);
      await until(() => isCut, 60_000);
      await until(async () => (await countSilent()) === 2, 60_000);
      expect([isCut, await countSilent(), underWay]).toEqual([true, 2, 0]);
      // It does not free the jobs of the other one yet, which may have been cut off as it was.
      toB.set("open");
      await accept(b, 2);
      await until(() => underWay === 1, 4_000);
      toA.set("open");
      await until(() => underWay > 0, 60_000);
      await pause(6_000);
      expect([underWay, most]).toEqual([1, 1]);
      release();
      await until(() => provider.requests.length === 2 && underWay === 0, 60_000);
      expect([provider.requests.length, most]).toEqual([2, 1]);
    },
  );
});
