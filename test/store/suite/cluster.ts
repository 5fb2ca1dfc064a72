import { expect, it } from "vitest";
import type { Held, Cluster, StoreHandle } from "../../../src/store/types.ts";
import { within } from "../../../src/testing/harness.ts";
import { until } from "../../../src/testing/harness.ts";
import { event, START } from "./make.ts";
import type { Stage } from "./stage.ts";

const INFO = {
  host: "test",
  pid: 1,
  version: "1.0.0",
  url: undefined,
  snapshot: "none",
  workers: true,
  startedAt: START,
};
/** A gateway that releases a lease notifies the other gateways soon; one that dies is noticed when its lease expires. */
const HANDOVER_MS = 10_000;

/** Holds a lease until `end` is called, and keeps what it was given. */
function holdLease({ cluster }: StoreHandle, name = "one") {
  const held: Held[] = [];
  const ending = new AbortController();
  const done = cluster.hold(name, ending.signal, async (lease) => {
    held.push(lease);
    await new Promise<void>((resolve) =>
      lease.signal.addEventListener("abort", () => resolve(), { once: true }),
    );
  });
  const end = async (): Promise<void> => {
    ending.abort();
    await within(HANDOVER_MS, "the end of `hold`", done);
  };
  return { held, end };
}

/** Waits until a gateway knows these gateways: they publish themselves within some seconds. */
async function expectGateways(cluster: Cluster, expected: readonly Cluster[]): Promise<void> {
  const ids = async (): Promise<string[]> => (await cluster.list()).map(({ id }) => id).toSorted();
  for (let tries = 0; tries < 100 && (await ids()).length < expected.length; tries++)
    await until(() => false, HANDOVER_MS / 100);
  expect(await ids()).toEqual(expected.map(({ id }) => id).toSorted());
}

/** Tests the leases of a gateway that is alone. */
function testOwnLeases(stage: Stage): void {
  it("a gateway has a lease until it lets it go, and what it commits under it is written", async () => {
    const { store, cluster } = stage.handle;
    const lease = holdLease(stage.handle);
    await until(() => lease.held.length > 0, HANDOVER_MS);
    expect(await cluster.leases()).toMatchObject([{ name: "one", holder: cluster.id }]);
    const fencingToken = lease.held[0]?.fencingToken;
    expect(await store.commit((tx) => tx.values.set("place", 1), fencingToken)).toBe(true);
    expect(await store.accept(event(), [], fencingToken)).toEqual({ kind: "accepted" });
    await lease.end();
    expect(lease.held.map(({ signal }) => signal.aborted)).toEqual([true]);
    expect((await cluster.leases()).filter(({ holder }) => holder !== undefined)).toEqual([]);
  });

  it("work under a lease that fails is begun again", async () => {
    let begun = 0;
    const ending = new AbortController();
    const holding = stage.cluster.hold("failing", ending.signal, async () => {
      begun++;
      if (begun === 1) throw new Error("the first time it fails");
      ending.abort();
    });
    await within(HANDOVER_MS, "`hold`", holding);
    expect(begun).toBe(2);
  });
}

/** Gateways of a store: what one of them does at a time, and what they know of each other. */
export function testCluster(stage: Stage): void {
  testOwnLeases(stage);

  it("a gateway finds itself among the gateways", async () => {
    const { cluster } = stage.handle;
    cluster.describe(() => INFO);
    // A gateway makes itself known at the latest with the first lease that it asks for.
    const lease = holdLease(stage.handle);
    await expectGateways(cluster, [cluster]);
    expect(cluster.reachable()).toBe(true);
    expect(await cluster.list()).toMatchObject([{ id: cluster.id, self: true, alive: true }]);
    await lease.end();
  });

  it("another gateway gets a lease once it is released, and the former one commits nothing under it", async () => {
    const { cluster, store } = stage.handle;
    if (!cluster.shared) return;
    const other = await stage.home.open();
    try {
      const first = holdLease(stage.handle);
      await until(() => first.held.length > 0, HANDOVER_MS);
      const second = holdLease(other);
      await expectGateways(cluster, [cluster, other.cluster]);
      expect(second.held).toEqual([]);
      const fencingToken = first.held[0]?.fencingToken;
      await first.end();
      await until(() => second.held.length > 0, HANDOVER_MS);
      expect(second.held[0]?.fencingToken?.token).toBeGreaterThan(fencingToken?.token ?? 0);
      expect(await store.commit((tx) => tx.values.set("place", "late"), fencingToken)).toBe(false);
      expect(await other.store.values.get("place")).toBeUndefined();
      await second.end();
    } finally {
      await other.store.close();
    }
  });
}
