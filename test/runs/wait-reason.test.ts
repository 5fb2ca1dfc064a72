import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLogger } from "../../src/core/log.ts";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import type { Store } from "../../src/store/types.ts";
import { createCli } from "../cli/world.ts";
import { createShortWaits } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { describePostgres, madeSchema } from "../store/postgres.ts";
import { createMailWorld, mailConfig, mailPlugins, type MailWorld } from "./mail.ts";

const HOUR_MS = 3_600_000;

let mail: MailWorld;
let world: World | undefined;
let dir: string;
let store: { store?: { url: string } } = {};
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-wait-"));
  mail = await createMailWorld();
});
afterEach(async () => {
  await world?.stop();
  world = undefined;
  await mail.close();
  rmSync(dir, { recursive: true, force: true });
});

const mapping = (id: string, more: object = {}): object => ({
  id,
  match: { path: id },
  messageTemplate: "Mail them.",
  agentId: "safe",
  deliver: false,
  wakeMode: "next-heartbeat",
  ...more,
});
const MAPPINGS = [
  mapping("asks", { agentId: "post", approve: ["post.send"], sessionKey: "hook:one" }),
  mapping("limited", { limits: { runsPerHour: 1 } }),
  mapping("alone", { limits: { concurrent: 1 } }),
  mapping("batched", { coalesce: { key: "all", windowSeconds: 600, maxSeconds: 600 } }),
  mapping("brief", { coalesce: { key: "all", windowSeconds: 1, maxSeconds: 2 } }),
  mapping("free"),
];

async function start(
  options: { maxConcurrent?: number; workers?: boolean; limits?: object } = {},
): Promise<World> {
  const { hooks, agents, models, ...rest } = mailConfig(mail) as {
    hooks: object;
    agents: { defaults: object };
    models: object;
  };
  const { maxConcurrent = 4, workers = true, limits } = options;
  world = await createWorld({
    config: {
      ...rest,
      ...store,
      models: { ...models, prices: { "local/m": { input: 1000, output: 1000 } } },
      agents: { ...agents, defaults: { ...agents.defaults, maxConcurrent } },
      hooks: {
        ...hooks,
        mappings: [...MAPPINGS, ...(limits ? [mapping("daily", { limits })] : [])],
      },
    },
    files: mailPlugins(mail),
    clock: createShortWaits().clock,
    dir,
    workers,
  });
  return world;
}

const order = async (of: World, path: string): Promise<string> => {
  const { body } = await of.post(`/hooks/${path}`, { n: Math.random() });
  return body.runId as string;
};
// oxlint-disable-next-line typescript/no-explicit-any -- a run as the interface has it
const read = async (of: World, id: string): Promise<any> =>
  (await of.admin(`/admin/v1/runs/${id}`)).body.run;
/** Waits until a run waits for something of this kind, and returns what the list says of it as well. */
async function waits(
  of: World,
  id: string,
  reason: string,
): Promise<{ status: string; waitsFor: object; listed: object }> {
  const { status, waitsFor } = await of.until(async () => {
    const run = await read(of, id);
    return run.waitsFor?.reason === reason && run;
  });
  const { runs } = (await of.admin("/admin/v1/runs")).body as {
    runs: { id: string; waitsFor: object }[];
  };
  return { status, waitsFor, listed: runs.find((run) => run.id === id)?.waitsFor ?? {} };
}
/** Opens the store behind the gateway. */
async function open<T>(use: (opened: Store) => Promise<T>): Promise<T> {
  const url = store.store?.url ?? `sqlite:${join(dir, ".rouse", "rouse.db")}`;
  const opened = await openStore({ url, clock: systemClock, log: createLogger("silent") });
  try {
    return await use(opened.store);
  } finally {
    await opened.store.close();
  }
}
/** The line of `rouse doctor` about limits. */
const getLimitsCheck = async (of: World): Promise<string> => {
  const { checks } = (await of.admin("/admin/v1/doctor")).body as {
    checks: { id: string; message: string }[];
  };
  return checks.find(({ id }) => id === "limits")?.message ?? "";
};
/** The reason in `rouse runs` why a run waits. */
async function show(id: string): Promise<string> {
  const cli = await createCli();
  try {
    const { out } = await cli.rouse(["runs", id, "-c", join(dir, "rouse.json5")]);
    const list = await cli.rouse(["runs", "-c", join(dir, "rouse.json5")]);
    const said = /^waits for +(.*)$/m.exec(out)?.[1] ?? "";
    // The list has the same with shorter times.
    expect(list.out).toContain(`waits for ${said.split(/\d{4}-\d\d/)[0]}`);
    return said;
  } finally {
    await cli.close();
  }
}

interface Wait {
  reason: string;
  since: string;
  until: string;
}

/** Waits for the end of a run. Returns its waits, which follow each other in time. */
async function ended(of: World, id: string, status = "succeeded"): Promise<Wait[]> {
  const { waits, createdAt, endedAt } = (await of.until(async () => {
    const run = await read(of, id);
    return run.status === status && run;
  })) as { waits: Wait[]; createdAt: string; endedAt: string };
  const times = [createdAt, ...waits.flatMap(({ since, until }) => [since, until]), endedAt];
  expect(times).toEqual(times.toSorted());
  return waits;
}
/** The same without the time in the queue, which depends on the machine. */
const endedBesides = async (of: World, id: string, status?: string): Promise<Wait[]> =>
  (await ended(of, id, status)).filter(({ reason }) => reason !== "queue");
/** Holds the answers of the model back until the function is called that it returns. */
function holdModel(): () => void {
  let open = (): void => undefined;
  const gate = new Promise<void>((done) => (open = done));
  mail.watch = ({ kind }, moment) => (kind === "model" && moment === "before" ? gate : undefined);
  return () => open();
}

/** Gateways that share a database keep their limits there. */
function testLimits(): void {
  it("names a limit with its time, or without one if another run has to end", async () => {
    const of = await start();
    // The model does not answer, so that the first run of each mapping keeps running.
    holdModel();
    await order(of, "limited");
    const limited = await order(of, "limited");
    // Gateways that share limits only forecast them when they accept.
    const { waitsFor } = await of.until(async () => {
      const run = await read(of, limited);
      return typeof run.waitsFor?.until === "string" && run;
    });
    expect(waitsFor).toEqual({
      reason: "limit",
      scope: "mapping:limited",
      limit: "runsPerHour",
      text: "limits.runsPerHour of mapping:limited",
      since: expect.any(String) as string,
      until: waitsFor.until,
    });
    expect(Date.parse(waitsFor.until) - Date.now()).toBeGreaterThan(HOUR_MS - 120_000);
    const running = await order(of, "alone");
    const alone = await order(of, "alone");
    expect((await waits(of, alone, "limit")).waitsFor).toEqual({
      reason: "limit",
      scope: "mapping:alone",
      limit: "concurrent",
      text: "limits.concurrent of mapping:alone",
      since: expect.any(String) as string,
      until: null,
    });
    const said = [
      /1 by hooks\.mappings\[1\]\.limits\.runsPerHour, .*mapping:limited: 1 of 1 runs this hour/,
      /1 by hooks\.mappings\[2\]\.limits\.concurrent, .*mapping:alone: 1 of 1 at the same time/,
    ];
    // The first run of the limit uses it once it has started.
    await of.until(async () => {
      const check = await getLimitsCheck(of);
      return said.every((each) => each.test(check));
    });
    await of.until(async () => (await read(of, running)).status === "running");
    expect((await read(of, running)).waitsFor).toBeNull();
  });

  it("gives each run a time of its own when another limit holds it back than the one that parked it", async () => {
    const of = await start({ limits: { concurrent: 1, runsPerHour: 2 } });
    const release = holdModel();
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) ids.push(await order(of, "daily"));
    for (const id of ids.slice(1)) await waits(of, id, "limit");
    release();
    const last = ids.slice(2);
    await of.until(async () =>
      (await Promise.all(last.map((id) => read(of, id)))).every(({ waitsFor }) => waitsFor?.until),
    );
    const hours = (await Promise.all(last.map((id) => read(of, id)))).map(({ waitsFor }) =>
      Math.round((Date.parse(waitsFor.until) - Date.now()) / HOUR_MS),
    );
    expect(hours).toEqual([1, 1, 2, 2]);
  });
}

function testReasons(): void {
  it("names the approval with its expiry, and the run of the session that goes first", async () => {
    const of = await start();
    const first = await order(of, "asks");
    const asked = await waits(of, first, "person");
    const { approvals } = (await of.admin("/admin/v1/approvals?state=open")).body;
    expect(asked).toMatchObject({
      status: "waiting",
      waitsFor: { reason: "person", approvalIds: [approvals[0].id], until: approvals[0].expiresAt },
    });
    expect(asked.listed).toEqual(asked.waitsFor);
    const behind = await order(of, "asks");
    expect(await waits(of, behind, "session")).toMatchObject({
      status: "queued",
      waitsFor: {
        reason: "session",
        head: first,
        text: `${first}, the run of its session that goes first`,
        until: null,
      },
    });
    expect(await show(first)).toMatch(
      new RegExp(`^a person \\(${approvals[0].id}\\), until \\d{4}-\\d\\d-\\d\\d `),
    );
  });

  it("names a limit without a time once the forecast is over and it still has no room", async () => {
    const of = await start();
    holdModel();
    await order(of, "limited");
    const id = await order(of, "limited");
    await of.until(async () => typeof (await read(of, id)).waitsFor?.until === "string");
    const now = systemClock.now();
    const over = {
      reason: "limit",
      scope: "mapping:limited",
      limit: "runsPerHour",
      since: now - 2000,
      until: now - 1000,
    } as const;
    await open((one) => one.commit((tx) => tx.runs.update(id, { hold: over })));
    expect((await read(of, id)).waitsFor).toEqual({
      reason: "limit",
      scope: over.scope,
      limit: over.limit,
      text: "limits.runsPerHour of mapping:limited",
      since: new Date(over.since).toISOString(),
      until: null,
    });
  });

  it.each([
    [
      "spent",
      { tokensPerDay: 5 },
      "tokensPerDay",
      /1 by hooks\.mappings\[\d\]\.limits\.tokensPerDay, .* of 5 tokens in a day/,
    ],
    [
      "paid",
      { budget: { perDay: "0.001 USD" } },
      "budget.perDay",
      /1 by hooks\.mappings\[\d\]\.limits\.budget\.perDay, .* of 0\.001 USD in a day/,
    ],
  ])(
    "names the limit that a day's use has reached, with its time: %s",
    async (_, limits, limit, check) => {
      const of = await start({ limits });
      const first = await order(of, "daily");
      await of.until(async () => (await read(of, first)).status === "succeeded");
      const second = await order(of, "daily");
      await of.until(async () => Boolean((await read(of, second)).waitsFor?.until));
      const { waitsFor } = await waits(of, second, "limit");
      expect(waitsFor).toMatchObject({ reason: "limit", scope: "mapping:daily", limit });
      expect(Date.parse((waitsFor as { until: string }).until) - Date.now()).toBeGreaterThan(
        23 * HOUR_MS,
      );
      expect(await getLimitsCheck(of)).toMatch(check);
    },
  );

  it("names the model whose provider is away", async () => {
    const of = await start({ workers: false });
    const id = await order(of, "free");
    await waits(of, id, "worker");
    const since = systemClock.now();
    const until = since + HOUR_MS;
    await open((one) =>
      one.commit((tx) => {
        const hold = { reason: "away", of: "local/m", since, until } as const;
        tx.runs.update(id, { status: "parked", hold });
        tx.jobs.reschedule("turn", id, until);
      }),
    );
    const { waitsFor } = await waits(of, id, "away");
    expect(waitsFor).toEqual({
      reason: "away",
      of: "local/m",
      text: "the model local/m, which does not answer",
      since: new Date(since).toISOString(),
      until: new Date(until).toISOString(),
    });
  });

  it("says when a batch closes, and when a run is tried again", async () => {
    const of = await start();
    const batched = await order(of, "batched");
    const { waitsFor } = await waits(of, batched, "batch");
    expect(Date.parse((waitsFor as { until: string }).until) - Date.now()).toBeGreaterThan(500_000);
    expect(waitsFor).toMatchObject({ text: "further events of its batch" });
    // No answer of the model comes, so that the run is put back with a growing wait.
    mail.watch = ({ kind }) => {
      if (kind === "model") throw new Error("cut");
    };
    const failing = await order(of, "free");
    const again = await waits(of, failing, "delay");
    expect(again).toMatchObject({ status: "queued", waitsFor: { text: "its next try" } });
    expect(Date.parse((again.waitsFor as { until: string }).until)).toBeGreaterThan(
      Date.now() - 60_000,
    );
  });

  it("says that a run is ready, and waits for a worker alone", async () => {
    const of = await start({ maxConcurrent: 1 });
    holdModel();
    const first = await order(of, "free");
    await of.until(async () => (await read(of, first)).status === "running");
    const second = await order(of, "free");
    expect((await waits(of, second, "worker")).waitsFor).toEqual({
      reason: "worker",
      text: "a free worker: all are busy, or no gateway has workers",
      since: null,
      until: null,
    });
    await of.admin(`/admin/v1/runs/${second}/cancel`, { method: "POST" });
    expect((await read(of, second)).waitsFor).toBeNull();
  });
}

function testPastWaits(): void {
  it("keeps nothing of a run that has not waited", async () => {
    const of = await start();
    // On a slow machine the first one waits for a worker.
    const id = await of.until(async () => {
      const one = await order(of, "free");
      return (await ended(of, one)).length === 0 && one;
    });
    const record = await open((one) => one.runs.get(id));
    expect(record).toMatchObject({ status: "succeeded" });
    expect(record).not.toHaveProperty("waits");
    expect(record).not.toHaveProperty("hold");
  });

  it("keeps each wait for a person, with the approvals, and the command shows them", async () => {
    const of = await start();
    const id = await order(of, "asks");
    const codes: string[] = [];
    for (let n = 0; n < 3; n++) {
      const [approval] = await of.until(async () => {
        const { approvals } = (await of.admin("/admin/v1/approvals?state=open")).body;
        return approvals.length > 0 && !codes.includes(approvals[0].id) && approvals;
      });
      codes.push(approval.id);
      await of.admin(`/admin/v1/approvals/${approval.id}`, {
        method: "POST",
        body: JSON.stringify({ verdict: "approve" }),
      });
    }
    expect(await endedBesides(of, id)).toMatchObject(
      codes.map((one) => ({ reason: "person", approvalIds: [one] })),
    );
    const cli = await createCli();
    const { out } = await cli.rouse(["runs", id, "-c", join(dir, "rouse.json5")]);
    await cli.close();
    expect(out).toMatch(
      new RegExp(`waited:\\s+\\d{4}-\\d\\d-\\d\\d .* for a person \\(${codes[0]}\\)\\s`),
    );
  });

  it("keeps the limit that held a run back, also of a run that was cancelled meanwhile", async () => {
    const of = await start();
    const release = holdModel();
    await order(of, "alone");
    const [held, cancelled] = [await order(of, "alone"), await order(of, "alone")];
    for (const id of [held, cancelled]) await waits(of, id, "limit");
    await of.admin(`/admin/v1/runs/${cancelled}/cancel`, { method: "POST" });
    const limit = { reason: "limit", scope: "mapping:alone", limit: "concurrent" };
    expect(await endedBesides(of, cancelled, "cancelled")).toMatchObject([limit]);
    release();
    expect(await endedBesides(of, held)).toMatchObject([limit]);
  });

  it("keeps the waits for a model that is away, and for another try", async () => {
    const of = await start();
    mail.failModel = () => 503;
    const id = await order(of, "free");
    await of.until(async () => ["delay", "away"].includes((await read(of, id)).waitsFor?.reason));
    mail.failModel = () => undefined;
    const past = await endedBesides(of, id);
    expect(past.length).toBeGreaterThan(0);
    for (const wait of past)
      expect(wait).toMatchObject(
        wait.reason === "delay" ? { reason: "delay" } : { reason: "away", of: "local/m" },
      );
    expect(await open((one) => one.runs.get(id))).not.toHaveProperty("hold");
  });

  it("keeps the time of the batch, and the time in the queue before a worker was free", async () => {
    const of = await start({ maxConcurrent: 1 });
    expect(await endedBesides(of, await order(of, "brief"))).toMatchObject([{ reason: "batch" }]);
    const release = holdModel();
    const first = await order(of, "free");
    await of.until(async () => (await read(of, first)).status === "running");
    const second = await order(of, "free");
    await waits(of, second, "worker");
    await systemClock.sleep(1100);
    release();
    const [wait] = await ended(of, second);
    expect(wait).toMatchObject({ reason: "queue" });
    expect(Date.parse(wait?.until ?? "") - Date.parse(wait?.since ?? "")).toBeGreaterThan(1000);
  });
}

describe("on SQLite", () => {
  beforeEach(() => void (store = {}));
  describe("the limit for which a run waits", testLimits);
  describe("why a run waits", testReasons);
  describe("what a run has waited for", testPastWaits);
});

describePostgres("the limit for which a run waits, on PostgreSQL", () => {
  beforeEach(async () => void (store = { store: { url: (await madeSchema()).url } }));
  testLimits();
});
