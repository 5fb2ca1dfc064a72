import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/log.ts";
import { openStore } from "../../src/store/open.ts";
import type { ApprovalRecord, StoreHandle, Verdict } from "../../src/store/types.ts";
import { createWorld, type World } from "../e2e/world.ts";
import {
  ALL_SENT,
  countMails,
  createMailWorld,
  mailConfig,
  mailPlugins,
  type MailWorld,
} from "./mail.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

let mail: MailWorld;
let world: World | undefined;
let dir: string;
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "rouse-waiting-"));
  mail = await createMailWorld();
  // The connection of the second e-mail is cut after it was sent.
  mail.watch = ({ kind, index }, moment) => {
    if (kind === "mail" && moment === "before" && index === 1) throw new Error("cut");
  };
});
afterEach(async () => {
  await world?.stop();
  world = undefined;
  await mail.close();
  rmSync(dir, { recursive: true, force: true });
});

const start = async (laterMs = 0): Promise<World> => {
  const clock = { ...systemClock, now: () => systemClock.now() + laterMs };
  world = await createWorld({ config: mailConfig(mail), files: mailPlugins(mail), dir, clock });
  return world;
};
const stop = async (): Promise<void> => {
  await world?.stop();
  world = undefined;
};
const post = async (of: World): Promise<string> =>
  of.orderRun({ message: "Mail them.", agentId: "post", sessionKey: "hook:mails" });
// oxlint-disable-next-line typescript/no-explicit-any -- a run as the interface has it
const read = async (of: World, id: string): Promise<any> =>
  (await of.get(`/hooks/runs/${id}`)).body.run;
const settle = (
  of: World,
  id: string,
  isDone = (status: string) => !["queued", "running"].includes(status),
  // oxlint-disable-next-line typescript/no-explicit-any -- a run as the interface has it
): Promise<any> =>
  of.until(async () => {
    const run = await read(of, id);
    return isDone(run.status) && run;
  });

/** Looks into the store of a gateway that is stopped. */
async function withStore<T>(work: (store: StoreHandle["store"]) => Promise<T>): Promise<T> {
  const { store } = await openStore({
    url: `sqlite:${join(dir, ".rouse", "rouse.db")}`,
    clock: systemClock,
    log: createLogger("silent"),
  });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

const decide = (verdict: Verdict): Promise<ApprovalRecord> =>
  withStore(async (store) => {
    const [approval] = await store.approvals.list({ state: "open", limit: 10 });
    if (!approval) throw new Error("nothing is asked");
    const at = systemClock.now();
    await store.commit((tx) => {
      tx.approvals.decide(approval.id, { verdict, by: "operator", at });
      tx.jobs.reschedule("turn", approval.runId, at);
    });
    return approval;
  });

describe("a run whose call has an unknown outcome", () => {
  it.each<[Verdict, object, object]>([
    ["repeat", { status: "succeeded", reply: ALL_SENT }, { 1: 1, 2: 2, 3: 1 }],
    ["done", { status: "succeeded", reply: ALL_SENT }, { 1: 1, 2: 1, 3: 1 }],
    ["give_up", { status: "failed", error: { code: "outcome_unknown" } }, { 1: 1, 2: 1 }],
  ])("waits over a restart, and does what a person decides: %s", async (verdict, end, sent) => {
    const before = await start();
    const id = await post(before);
    expect(await settle(before, id)).toMatchObject({ status: "waiting", endedAt: null });
    await stop();
    const asked = await decide(verdict);
    expect(asked).toMatchObject({
      runId: id,
      callId: `${id}.1.0`,
      tool: "post.send",
      input: { n: 2 },
      reason: "outcome_unknown",
    });
    const after = await start(HOUR_MS);
    expect(
      await settle(after, id, (status) => !["queued", "running", "waiting"].includes(status)),
    ).toMatchObject(end);
    // The hour in which the run waited is no time in the queue.
    const [, queuedSeconds] =
      /^rouse_queue_wait_seconds_sum (\S+)$/m.exec(String((await after.admin("/metrics")).body)) ??
      [];
    expect(Number(queuedSeconds)).toBeLessThan(HOUR_MS / 1000);
    expect(countMails(mail.sent)).toEqual(sent);
    // A repeat is made under the id of the first call.
    expect(new Set(mail.sent.filter(({ n }) => n === 2).map(({ key }) => key))).toEqual(
      new Set([`${id}.1.0`]),
    );
  });

  it("does what a person decides once, at a time before its call by a clock that was set back", async () => {
    const before = await start();
    const id = await post(before);
    await settle(before, id);
    await stop();
    const after = await start(-HOUR_MS);
    const { approvals } = (await after.admin("/admin/v1/approvals?state=open")).body;
    expect(
      (
        await after.admin(`/admin/v1/approvals/${approvals[0].id}`, {
          method: "POST",
          body: JSON.stringify({ verdict: "repeat" }),
        })
      ).status,
    ).toBe(200);
    expect(await settle(after, id, (status) => status === "succeeded")).toMatchObject({
      reply: ALL_SENT,
    });
    expect(countMails(mail.sent)).toEqual({ 1: 1, 2: 2, 3: 1 });
    expect((await after.admin("/admin/v1/approvals")).body.approvals).toHaveLength(1);
  });

  it("fails without a decision for a day, and holds its session until then", async () => {
    const before = await start();
    const id = await post(before);
    expect((await settle(before, id)).status).toBe("waiting");
    const next = await post(before);
    await stop();
    const later = await start(DAY_MS - 60_000);
    await later.until(async () => (await later.get("/readyz")).status === 200);
    expect([(await read(later, id)).status, (await read(later, next)).status]).toEqual([
      "waiting",
      "queued",
    ]);
    await stop();
    mail.watch = () => undefined;
    const over = await start(DAY_MS + 60_000);
    const ended = await settle(over, id, (status) => status === "failed");
    expect(ended.error).toEqual({
      code: "outcome_unknown",
      message: expect.stringContaining("no decision was made in time"),
    });
    expect(await settle(over, next, (status) => status === "succeeded")).toMatchObject({
      reply: ALL_SENT,
    });
    expect(mail.sent.filter(({ run }) => run === id)).toHaveLength(2);
  });

  it("can be cancelled: its question ends with it", async () => {
    const of = await start();
    const id = await post(of);
    expect((await settle(of, id)).status).toBe("waiting");
    expect((await of.admin(`/admin/v1/runs/${id}/cancel`, { method: "POST" })).status).toBe(200);
    expect((await read(of, id)).status).toBe("cancelled");
    await stop();
    const [approval] = await withStore((store) => store.approvals.list({ runId: id, limit: 10 }));
    expect(approval?.decision).toMatchObject({ verdict: "give_up", by: "operator" });
    expect(countMails(mail.sent)).toEqual({ 1: 1, 2: 1 });
  });
});
