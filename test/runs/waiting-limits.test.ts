import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";
import { describePostgres, madeSchema, type Schema } from "../store/postgres.ts";
import { ALL_SENT, createMailWorld, mailConfig, mailPlugins, type MailWorld } from "./mail.ts";

/** Tokens of one answer of the model, and of a whole run. */
const STEP = 12;
const RUN = 4 * STEP;

let mail: MailWorld;
let world: World | undefined;
let dir: string;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-waiting-limits-"));
  mail = await createMailWorld();
});
afterEach(async () => {
  await world?.stop();
  world = undefined;
  await mail.close();
  rmSync(dir, { recursive: true, force: true });
});

const LIMITS = { concurrent: 1, runsPerHour: 9, tokensPerDay: 1000, queue: 1 };
const MAILS = {
  id: "mails",
  match: { path: "mails" },
  messageTemplate: "Mail them.",
  agentId: "post",
  deliver: false,
};

/** Starts a gateway on the folder, in place of the one before. */
async function start(store: object, limits: object = LIMITS): Promise<World> {
  await world?.stop();
  const { hooks, ...rest } = mailConfig(mail) as { hooks: object };
  const mapping = { ...MAILS, wakeMode: "next-heartbeat", approve: ["post.send"], limits };
  world = await createWorld({
    config: { ...rest, ...store, hooks: { ...hooks, mappings: [mapping] } },
    files: mailPlugins(mail),
    dir,
  });
  return world;
}

const getUsage = async (of: World): Promise<string> =>
  (await of.admin("/admin/v1/doctor")).body.checks.find(({ id }: { id: string }) => id === "limits")
    .message;
const expectUsage = (of: World, ...parts: string[]): Promise<unknown> =>
  of.until(async () => {
    const usage = await getUsage(of);
    return parts.every((part) => usage.includes(part));
  });
const order = async (of: World): Promise<string> => (await of.post("/hooks/mails", {})).body.runId;
const reach = (of: World, id: string, status: string): Promise<unknown> =>
  of.until(async () => (await of.get(`/hooks/runs/${id}`)).body.run.status === status);
/** Approves what a run asks until it ends. */
const approveAll = (of: World, id: string): Promise<unknown> =>
  of.until(async () => {
    const { approvals } = (await of.admin("/admin/v1/approvals?state=open")).body as {
      approvals: { id: string; runId: string }[];
    };
    for (const one of approvals.filter(({ runId }) => runId === id))
      await of.admin(`/admin/v1/approvals/${one.id}`, {
        method: "POST",
        body: JSON.stringify({ verdict: "approve" }),
      });
    return (await of.get(`/hooks/runs/${id}`)).body.run.status === "succeeded";
  });

function testLimits(getStore: () => object): void {
  it("count a run that waits for a person once, the same before and after a restart", async () => {
    const before = await start(getStore());
    const first = await order(before);
    await reach(before, first, "waiting");
    const waits = (runs: number, running = 0): string[] => [
      `${running} of 1 at the same time`,
      `${runs} of 9 runs this hour`,
      `${runs * STEP} of 1000 tokens`,
    ];
    await expectUsage(before, ...waits(1));
    // It holds no place, and none of those that may wait for one.
    const second = await order(before);
    await reach(before, second, "waiting");
    await expectUsage(before, ...waits(2));
    const usage = await getUsage(before);

    const after = await start(getStore());
    await expectUsage(after, ...waits(2));
    expect(await getUsage(after)).toBe(usage);
    const third = await order(after);
    await reach(after, third, "waiting");
    await expectUsage(after, ...waits(3));

    // Neither its start nor its use before the wait is counted again at its end.
    await approveAll(after, first);
    expect((await after.get(`/hooks/runs/${first}`)).body.run.reply).toBe(ALL_SENT);
    await expectUsage(
      after,
      "0 of 1 at the same time",
      "3 of 9 runs this hour",
      `${RUN + 2 * STEP} of 1000 tokens`,
    );
    await after.admin(`/admin/v1/runs/${second}/cancel`, { method: "POST" });
    await expectUsage(
      after,
      "0 of 1 at the same time",
      "3 of 9 runs this hour",
      `${RUN + 2 * STEP} of 1000 tokens`,
    );
    const end = await getUsage(after);
    const last = await start(getStore());
    await expectUsage(last, `${RUN + 2 * STEP} of 1000 tokens`);
    expect(await getUsage(last)).toBe(end);
    expect(mail.sent).toHaveLength(3);
  });

  it("of tokens hold runs back by what runs that wait have used", async () => {
    const limits = { tokensPerDay: 2 * STEP };
    const before = await start(getStore(), limits);
    for (const id of [await order(before), await order(before)]) await reach(before, id, "waiting");
    await expectUsage(before, `${2 * STEP} of ${2 * STEP} tokens`);
    await reach(before, await order(before), "parked");
    const after = await start(getStore(), limits);
    await reach(after, await order(after), "parked");
    expect(mail.requests).toHaveLength(2);
  });

  it("of starts let a run continue after its answer, while other runs wait for the next hour", async () => {
    const before = await start(getStore(), { runsPerHour: 1 });
    const first = await order(before);
    await reach(before, first, "waiting");
    const second = await order(before);
    await reach(before, second, "parked");
    const after = await start(getStore(), { runsPerHour: 1 });
    await expectUsage(after, "1 of 1 runs this hour");
    await approveAll(after, first);
    expect((await after.get(`/hooks/runs/${second}`)).body.run.status).toBe("parked");
  });
}

describe("limits on SQLite", () => testLimits(() => ({})));

describePostgres("limits on PostgreSQL", () => {
  let schema: Schema;
  beforeEach(async () => void (schema = await madeSchema()));
  testLimits(() => ({ store: { url: schema.url } }));
});
