import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/log.ts";
import { openStore } from "../../src/store/open.ts";
import type { RunRecord } from "../../src/store/types.ts";
import { createCli } from "../cli/world.ts";
import { createShortWaits } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { describePostgres, madeSchema } from "../store/postgres.ts";
import { createMailWorld, mailConfig, mailPlugins, type MailWorld } from "./mail.ts";

let mail: MailWorld;
let world: World | undefined;
let dir: string;
let store: { store?: { url: string } } = {};
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-waits-"));
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
  mapping("asks", { agentId: "post", approve: ["post.send"] }),
  mapping("alone", { limits: { concurrent: 1 } }),
  mapping("batched", { coalesce: { key: "all", windowSeconds: 1, maxSeconds: 2 } }),
  mapping("free"),
];

async function start({ maxConcurrent = 4 } = {}): Promise<World> {
  const { hooks, agents, ...rest } = mailConfig(mail) as {
    hooks: object;
    agents: { defaults: object };
  };
  world = await createWorld({
    config: {
      ...rest,
      ...store,
      agents: { ...agents, defaults: { ...agents.defaults, maxConcurrent } },
      hooks: { ...hooks, mappings: MAPPINGS },
    },
    files: mailPlugins(mail),
    clock: createShortWaits().clock,
    dir,
  });
  return world;
}

interface Wait {
  kind: string;
  since: string;
  until: string;
}

const order = async (of: World, path: string): Promise<string> =>
  (await of.post(`/hooks/${path}`, { n: Math.random() })).body.runId;
// oxlint-disable-next-line typescript/no-explicit-any -- a run as the interface has it
const read = async (of: World, id: string): Promise<any> =>
  (await of.admin(`/admin/v1/runs/${id}`)).body.run;
const waitsNow = (of: World, id: string, kind: string): Promise<unknown> =>
  of.until(async () => (await read(of, id)).waitsFor?.kind === kind);
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
  (await ended(of, id, status)).filter(({ kind }) => kind !== "queue");
const readRecord = async (id: string): Promise<RunRecord | undefined> => {
  const url = store.store?.url ?? `sqlite:${join(dir, ".rouse", "rouse.db")}`;
  const opened = await openStore({ url, clock: systemClock, log: createLogger("silent") });
  const record = await opened.store.get("run", id);
  await opened.store.close();
  return record;
};
/** Holds the answers of the model back until the function is called that it returns. */
function holdModel(): () => void {
  let open = (): void => undefined;
  const gate = new Promise<void>((done) => (open = done));
  mail.watch = ({ kind }, moment) => (kind === "model" && moment === "before" ? gate : undefined);
  return () => open();
}

function testWaits(): void {
  it("keeps nothing of a run that has not waited", async () => {
    const of = await start();
    // On a slow machine the first one waits for a worker.
    const id = await of.until(async () => {
      const one = await order(of, "free");
      return (await ended(of, one)).length === 0 && one;
    });
    const record = await readRecord(id);
    expect(record).toMatchObject({ status: "succeeded" });
    expect(record).not.toHaveProperty("waits");
    expect(record).not.toHaveProperty("waitSince");
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
      codes.map((one) => ({ kind: "approval", approvalIds: [one] })),
    );
    const cli = await createCli();
    const { out } = await cli.rouse(["runs", "show", id, "-c", join(dir, "rouse.json5")]);
    await cli.close();
    expect(out).toMatch(
      new RegExp(`waited\\s+\\d{4}-\\d\\d-\\d\\d .* for a person \\(${codes[0]}\\)\\s`),
    );
  });

  it("keeps the limit that held a run back, also of a run that was cancelled meanwhile", async () => {
    const of = await start();
    const open = holdModel();
    await order(of, "alone");
    const [held, cancelled] = [await order(of, "alone"), await order(of, "alone")];
    for (const id of [held, cancelled]) await waitsNow(of, id, "limit");
    await of.admin(`/admin/v1/runs/${cancelled}/cancel`, { method: "POST" });
    const limit = { kind: "limit", scope: "mapping:alone", limit: "concurrent" };
    expect(await endedBesides(of, cancelled, "cancelled")).toMatchObject([limit]);
    open();
    expect(await endedBesides(of, held)).toMatchObject([limit]);
  });

  it("keeps the waits for a model that is away, and for another try", async () => {
    const of = await start();
    mail.failModel = () => 503;
    const id = await order(of, "free");
    await of.until(async () => ["delay", "breaker"].includes((await read(of, id)).waitsFor?.kind));
    mail.failModel = () => undefined;
    const waits = await endedBesides(of, id);
    expect(waits.length).toBeGreaterThan(0);
    for (const wait of waits)
      expect(wait).toMatchObject(
        wait.kind === "delay" ? { kind: "delay" } : { kind: "model", of: "local/m" },
      );
    expect(await readRecord(id)).not.toHaveProperty("waitSince");
  });

  it("keeps the time of the batch, and the time in the queue before a worker was free", async () => {
    const of = await start({ maxConcurrent: 1 });
    expect(await endedBesides(of, await order(of, "batched"))).toMatchObject([{ kind: "batch" }]);
    const open = holdModel();
    const first = await order(of, "free");
    await of.until(async () => (await read(of, first)).status === "running");
    const second = await order(of, "free");
    await waitsNow(of, second, "worker");
    await systemClock.sleep(1100);
    open();
    const [wait] = await ended(of, second);
    expect(wait).toMatchObject({ kind: "queue" });
    expect(Date.parse(wait?.until ?? "") - Date.parse(wait?.since ?? "")).toBeGreaterThan(1000);
  });
}

describe("what a run has waited for, on SQLite", () => {
  beforeEach(() => void (store = {}));
  testWaits();
});

describePostgres("what a run has waited for, on PostgreSQL", () => {
  beforeEach(async () => void (store = { store: { url: (await madeSchema()).url } }));
  testWaits();
});
