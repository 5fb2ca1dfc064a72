import { expect, it } from "vitest";
import type { Held, StoreHandle } from "../../src/store/types.ts";
import { event } from "./suite/make.ts";
import { createDatabase, describePostgres } from "./postgres.ts";
import { postgresAddress } from "./postgres-client.ts";
import { createProxy } from "./proxy.ts";

const KEEP = 86_400_000;
const RETENTION = {
  bodies: KEEP,
  events: KEEP,
  runs: KEEP,
  hookSessions: KEEP,
  apiSessions: KEEP,
  deliveries: KEEP,
  sessionTurns: 5_000,
};

async function until(done: () => boolean | Promise<boolean>, ms = 5000): Promise<void> {
  for (const end = Date.now() + ms; !(await done()) && Date.now() < end;)
    await new Promise((resolve) => setTimeout(resolve, 5));
}

/** Whoever has the lease, and everybody who had it. */
function watch(handle: StoreHandle, name = "one", ended = new AbortController()) {
  const had: Held[] = [];
  const done = handle.cluster.hold(name, ended.signal, async (held) => {
    had.push(held);
    await new Promise<void>((resolve) =>
      held.signal.addEventListener("abort", () => resolve(), { once: true }),
    );
  });
  return { had, ended, done, now: () => had.find((held) => !held.signal.aborted) };
}

describePostgres("leases between gateways", () => {
  const { open, closeAll, query } = createDatabase();
  /** The gateway looks dead to the database, and does not know it: as after a long stop of its process. */
  const forgetBeats = (id: string): Promise<unknown> =>
    query("UPDATE holders SET seen = now() - interval '1 minute' WHERE gateway = $1", [id]);

  it("what a former holder commits is refused: values, events with their keys, and sweeps", async () => {
    const [a, b] = [await open(), await open()];
    const first = watch(a);
    await until(() => first.now() !== undefined);
    const fencingToken = first.now()?.fencingToken;
    expect(await a.store.commit((tx) => tx.values.set("cursor", "a1"), fencingToken)).toBe(true);
    expect(await a.store.accept(event({ id: "evt_in_time" }), [], fencingToken)).toEqual({
      kind: "accepted",
    });
    await forgetBeats(a.cluster.id);
    // The lease is lost, although no other gateway has taken it yet.
    expect(await a.store.commit((tx) => tx.values.set("cursor", "a2"), fencingToken)).toBe(false);
    const second = watch(b);
    await until(() => second.now() !== undefined, 30_000);
    expect(
      await b.store.commit((tx) => tx.values.set("cursor", "b1"), second.now()?.fencingToken),
    ).toBe(true);
    expect(await a.store.commit((tx) => tx.values.set("cursor", "a3"), fencingToken)).toBe(false);
    await expect(a.store.accept(event({ id: "evt_late" }), [], fencingToken)).rejects.toMatchObject(
      { code: "store_unavailable" },
    );
    await a.store.accept(event({ id: "evt_old", receivedAt: 1000, outcome: "skipped" }));
    expect(await a.store.sweep(Date.now(), RETENTION, fencingToken)).toBe(0);
    expect(await b.store.values.get("cursor")).toBe("b1");
    expect(await b.store.events.get("evt_late")).toBeUndefined();
    expect(await b.store.sweep(Date.now(), RETENTION, second.now()?.fencingToken)).toBeGreaterThan(
      0,
    );
  });

  it("a commit under a lease and a change of its holder do not pass each other", async () => {
    const [a, b] = [await open(), await open()];
    const first = watch(a);
    await until(() => first.now() !== undefined);
    const fencingToken = first.now()?.fencingToken;
    let [kept, refused] = [0, 0];
    const second = watch(b);
    const commits = (async () => {
      for (let n = 1; refused < 3; n++) {
        if (await a.store.commit((tx) => tx.values.set("n", n), fencingToken)) kept = n;
        else refused++;
      }
    })();
    await until(() => kept > 5);
    await forgetBeats(a.cluster.id);
    // Or it would be the next holder, too.
    first.ended.abort();
    await until(() => second.now() !== undefined, 30_000);
    await commits;
    // All that was said to be kept is there, and nothing later.
    expect(await b.store.values.get("n")).toBe(kept);
  });

  it("who is cut off from the database stops before another one starts, and gets nothing back by itself", async () => {
    const proxy = await createProxy(postgresAddress());
    const a = await open((url) => (url.port = String(proxy.port)));
    const b = await open();
    const first = watch(a);
    await until(() => first.now() !== undefined);
    const held = first.now() as Held;
    let stoppedAt = 0;
    held.signal.addEventListener("abort", () => (stoppedAt = performance.now()), { once: true });
    const second = watch(b);
    const cutAt = performance.now();
    proxy.set("hanging");
    await until(() => second.now() !== undefined, 40_000);
    const startedAt = performance.now();
    expect(stoppedAt).toBeGreaterThan(cutAt);
    expect(stoppedAt).toBeLessThan(startedAt);
    proxy.set("open");
    // Late statements of the first are refused, and it waits for its turn.
    const isRefused = (): Promise<boolean> =>
      a.store
        .commit((tx) => tx.values.set("x", 1), held.fencingToken)
        .then(
          (kept) => !kept,
          () => false,
        );
    await until(isRefused, 30_000);
    expect(first.now()).toBeUndefined();
    expect(await b.store.commit((tx) => tx.values.set("x", 2), second.now()?.fencingToken)).toBe(
      true,
    );
    await closeAll();
    proxy.close();
  });

  it("a message under a topic reaches all other gateways, in pieces that PostgreSQL takes", async () => {
    const [a, b] = [await open(), await open()];
    const heard: string[] = [];
    b.cluster.on("cancel", (values) => void heard.push(...values));
    a.cluster.on("cancel", (values) => void heard.push(...values.map((value) => `own ${value}`)));
    await until(async () => {
      a.cluster.tell("cancel", ["ready?"]);
      return heard.includes("ready?");
    }, 5000);
    const many = Array.from({ length: 1000 }, (_, n) => `run_${n}_${"x".repeat(30)}`);
    a.cluster.tell("cancel", many);
    await until(() => heard.includes(many.at(-1) as string), 5000);
    expect(heard.filter((value) => value.startsWith("run_"))).toEqual(many);
    expect(heard.filter((value) => value.startsWith("own"))).toEqual([]);
  });
});
