import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { BulkLine } from "../../src/operate/records/bulk.ts";
import { newId } from "../../src/core/ids.ts";
import type { DeliveryChange, Store } from "../../src/store/types.ts";
import type { RunStatus } from "../../src/vocabulary/outcomes.ts";
import { createCli, shopConfig, type CliWorld } from "../cli/world.ts";
import { createWorld, event_, runAction, type World } from "./admin-world.ts";
import { openStore } from "../../src/store/open.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silent } from "../store/home.ts";
import { join } from "node:path";
import { mkdirSync } from "node:fs";

async function keepRun(
  store: Store,
  sessionKey: string,
  status: RunStatus,
  mapping?: string,
): Promise<string> {
  const action = { ...runAction(sessionKey), ...(mapping === undefined ? {} : { mapping }) };
  await store.accept(event_("shop", { outcome: "accepted", actions: [action] }));
  await store.commit((tx) => tx.runs.update(action.runId, { status, endedAt: Date.now() }));
  return action.runId;
}

async function keepDelivery(
  store: Store,
  change: DeliveryChange,
  channel = "slack",
): Promise<string> {
  const id = newId("dlv", Date.now());
  const runId = await keepRun(store, `hook:${id}`, "succeeded");
  const now = Date.now();
  await store.commit((tx) => {
    tx.deliveries.add({
      id,
      runId,
      route: { channel, to: "C1" },
      chunks: ["one", "two", "three"],
      createdAt: now,
    });
    tx.deliveries.update(id, { endedAt: now, ...change });
  });
  return id;
}

const FAILED = {
  status: "failed" as const,
  error: { code: "not_delivered" as const, message: "it said no" },
} satisfies DeliveryChange;

describe("over HTTP", () => {
  let world: World;
  beforeEach(async () => {
    world = await createWorld();
  });
  afterEach(() => world.close());

  async function lines(path: string, body: object): Promise<BulkLine[]> {
    const response = await world.request(path, { method: "POST", body: JSON.stringify(body) });
    expect(response.status).toBe(200);
    const text = await response.text();
    return text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as BulkLine);
  }
  /** The runs that start again. */
  const queued = async (): Promise<string[]> =>
    (await world.store.runs.list({ status: "queued" })).map(({ id }) => id).toSorted();
  const ids = (all: BulkLine[]): string[] =>
    all.flatMap((line) => (line.type === "result" ? [line.id] : []));

  it("a replay of events that are named starts the failed runs of those that were accepted", async () => {
    const runs = [
      await keepRun(world.store, "hook:a", "failed"),
      await keepRun(world.store, "hook:b", "succeeded"),
    ];
    const events = await Promise.all(
      runs.map(async (id) => (await world.store.runs.get(id))?.eventId),
    );
    const all = (await lines("/events/replay", {
      select: "failed",
      ids: events,
      dryRun: true,
    })) as unknown[];
    expect(all).toEqual([
      { type: "total", total: 1, skipped: 0, dryRun: true },
      {
        type: "result",
        ok: true,
        id: events[0],
        status: "accepted",
        summary: expect.stringMatching(/^the failed run of .* starts again$/),
        result: expect.objectContaining({
          eventId: events[0],
          actions: [expect.objectContaining({ id: runs[0] })],
        }),
      },
      { type: "end", done: 1, failed: 0 },
    ]);
    expect(await queued()).toEqual([]);
  });

  it("runs start again from the oldest to the newest, as filters and the limit leave them", async () => {
    const made: string[] = [];
    for (let n = 0; n < 3; n++)
      made.push(await keepRun(world.store, "hook:same", "failed", "shop.order"));
    const other = await keepRun(world.store, "hook:other", "cancelled");
    expect(ids(await lines("/runs/retry", { sessionKey: "hook:same", limit: 2 }))).toEqual(
      made.slice(1),
    );
    expect(await queued()).toEqual(made.slice(1).toSorted());
    expect(ids(await lines("/runs/retry", { status: "cancelled", dryRun: true }))).toEqual([other]);
    expect(ids(await lines("/runs/retry", { mapping: "nothing", dryRun: true }))).toEqual([]);
    expect(ids(await lines("/runs/retry", { until: "1d", dryRun: true }))).toEqual([]);
  });

  it("named ids are retried and no others; one that cannot be is reported, and the rest continues", async () => {
    const good = await keepRun(world.store, "hook:a", "failed");
    const done = await keepRun(world.store, "hook:b", "succeeded");
    await keepRun(world.store, "hook:c", "failed");
    const all = await lines("/runs/retry", { ids: ["run_none", done, good] });
    expect(
      all.flatMap((line) => (line.type === "result" ? [line.ok || line.failure.code] : [])),
    ).toEqual(["not_found", "not_retryable", true]);
    expect(all.at(-1)).toEqual({ type: "end", done: 1, failed: 2 });
    expect(await queued()).toEqual([good]);
    const mixed = await world.request("/runs/retry", {
      method: "POST",
      body: JSON.stringify({ ids: [good], since: "1d" }),
    });
    expect([mixed.status, await mixed.json()]).toMatchObject([
      400,
      { error: { code: "usage", message: "`ids` names what is meant: leave `since` out" } },
    ]);
  });

  it("a preview of deliveries says what would be sent where; those of an unknown outcome have to be asked for", async () => {
    const failed = await keepDelivery(world.store, { ...FAILED, nextChunk: 1 });
    const elsewhere = await keepDelivery(world.store, FAILED, "telegram");
    const unknown = await keepDelivery(world.store, { status: "unknown" });
    await keepDelivery(world.store, { status: "delivered" });
    const all = await lines("/deliveries/retry", { dryRun: true });
    expect(all[1]).toEqual({
      type: "result",
      ok: true,
      id: failed,
      status: "failed",
      summary: "sends 2 messages to slack C1",
    });
    expect(ids(all)).toEqual([failed, elsewhere]);
    expect(ids(await lines("/deliveries/retry", { channel: "telegram", dryRun: true }))).toEqual([
      elsewhere,
    ]);
    const asked = await lines("/deliveries/retry", { status: "unknown", dryRun: true });
    expect(asked[1]).toMatchObject({
      id: unknown,
      summary: expect.stringContaining("may have arrived already"),
    });
    expect((await world.store.deliveries.get(failed))?.status).toBe("failed");
  });

  it("a reader that leaves ends the retry", async () => {
    for (let n = 0; n < 5; n++) await keepRun(world.store, `hook:${n}`, "failed");
    const response = await world.request("/runs/retry", { method: "POST", body: "{}" });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    await reader.read();
    await reader.cancel();
    expect(await queued()).toHaveLength(1);
  });
});

describe("on the command line", () => {
  let cli: CliWorld;
  let made: { run: string; delivery: string };
  beforeAll(async () => {
    cli = await createCli();
    await cli.write("rouse.json5", shopConfig());
    mkdirSync(join(cli.dir, ".rouse"), { recursive: true });
    const { store } = await openStore({
      url: `sqlite:${join(cli.dir, ".rouse", "rouse.db")}`,
      clock: systemClock,
      log: silent,
    });
    made = {
      run: await keepRun(store, "hook:a", "failed"),
      delivery: await keepDelivery(store, { ...FAILED, nextChunk: 1 }),
    };
    await store.close();
  });
  afterAll(() => cli.close());

  const status = async (): Promise<string> =>
    (
      JSON.parse((await cli.rouse(["runs", made.run, "--json"])).out) as {
        run: { status: string };
      }
    ).run.status;

  it("rouse runs retry --failed says with --dry-run what it would do, and then does it", async () => {
    const tried = await cli.rouse(["runs", "retry", "--failed", "--dry-run"]);
    expect([tried.code, tried.out]).toEqual([
      0,
      expect.stringMatching(
        new RegExp(
          `^${made.run}  failed  .* starts again from its beginning, in the session hook:a\n1 would be retried: 1 failed\n$`,
        ),
      ),
    ]);
    expect(await status()).toBe("failed");
    const { code, out } = await cli.rouse(["runs", "retry", "--failed", "--since", "1d"]);
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/queued .*\n1 retried: 1 queued\nno gateway runs just now/),
    ]);
    expect(await status()).toBe("queued");
    expect((await cli.rouse(["runs", "retry", "--failed"])).out).toMatch(/^0 retried/);
  });

  it("rouse runs retry takes several that are named, and tells which cannot start again", async () => {
    const none = `run_${"0".repeat(35)}`;
    const { code, out } = await cli.rouse(["runs", "retry", made.run, none, "--dry-run"]);
    expect(code).toBe(1);
    expect(out).toContain(`${made.run}  `);
    expect(out).toContain(
      `${none}  not retried: there is no run "${none}"; \`rouse runs\` lists them\n`,
    );
    expect(out).toMatch(/^0 would be retried; 2 could not be retried\n$/m);
  });

  it.each([
    [["runs", "retry"], "write an id, or choose several with --failed"],
    [
      ["runs", "retry", "run_x", "--failed"],
      "--failed cannot be used beside an id: leave one of the two out",
    ],
    [
      ["runs", "retry", "run_x", "--dry-run"],
      "--dry-run cannot be used beside an id: leave one of the two out",
    ],
    [["runs", "retry", "--failed", "--status", "failed"], "use --failed or --status"],
    [["runs", "retry", "--status", "running"], "Allowed choices are failed, timed_out, cancelled"],
    [["deliveries", "retry"], "write an id, or choose several"],
    [["deliveries", "retry", "--failed", "--status", "no_route"], "use --failed or --status"],
    [
      ["deliveries", "retry", "--status", "pending"],
      "Allowed choices are failed, no_route, unknown",
    ],
    [
      ["deliveries", "retry", "dlv_x", "--channel", "slack"],
      "--channel cannot be used beside an id: leave one of the two out",
    ],
  ])("rouse %j is refused", async (args, message) => {
    expect(await cli.rouse(args)).toMatchObject({ code: 2, err: expect.stringContaining(message) });
  });

  it("rouse deliveries retry --failed and show have the messages", async () => {
    const tried = await cli.rouse(["deliveries", "retry", "--failed", "--dry-run"]);
    expect([tried.code, tried.out]).toEqual([
      0,
      `${made.delivery}  failed  sends 2 messages to slack C1\n1 would be retried: 1 failed\n`,
    ]);
    const { out } = await cli.rouse(["deliveries", made.delivery]);
    expect(out).toMatch(
      /sent chunks +1\n[^]*error +not_delivered: it said no[^]*message 1 \(sent\)\n {2}one\n\nmessage 2 \(not sent\)\n {2}two/,
    );
    const retried = await cli.rouse(["deliveries", "retry", "--failed", "--json"]);
    expect(JSON.parse(retried.out)).toMatchObject({
      lines: [{ total: 1 }, { ok: true, status: "pending" }, { done: 1, failed: 0 }],
    });
  });
});
