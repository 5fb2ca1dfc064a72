import { mkdtempSync, rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createWorld, type World } from "./world.ts";

let dir: string;
let world: World | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-broken-"));
});
afterEach(async () => {
  await world?.stop();
  rmSync(dir, { recursive: true, force: true });
});

interface Event {
  id: string;
  outcome: string;
  reason: string | null;
}

/** Damaged actions in the row of an event, of which no run can be made: text that was cut off, and text of another program. */
const DAMAGE = [
  '[{"kind":"run","runId":"run_x',
  '[{"kind":"run","runId":"run_x"}]',
  '[{"kind":"wake"}]',
  "null",
];

it("damaged events are set aside: later events are executed, and each damaged one can be seen and replayed", async () => {
  const config = { agents: { defaults: { heartbeat: { every: 0 } } } };
  world = await createWorld({ dir, config, workers: false });
  const post = async (message: string, headers = {}): Promise<{ event: string; run: string }> => {
    const answer = await (world as World).post(
      "/hooks/agent",
      { message, deliver: false, wakeMode: "next-heartbeat" },
      headers,
    );
    return {
      event: answer.headers.get("x-request-id") as string,
      run: answer.body.runId as string,
    };
  };
  const before = await post("before");
  const broken: { event: string; run: string }[] = [];
  for (const n of DAMAGE.keys())
    broken.push(await post("damaged", { "idempotency-key": `order-${n}` }));
  const ids = broken.map(({ event }) => event);
  const behind = await post("behind");
  await world.stop();

  // As if the process had ended before it took them up, and the disk had not kept all.
  const db = new DatabaseSync(join(dir, ".rouse", "rouse.db"));
  db.exec("DELETE FROM runs; DELETE FROM jobs; UPDATE marks SET seq = 0 WHERE name = 'intake'");
  db.exec("UPDATE counts SET n = 0 WHERE name LIKE 'events.%' OR name LIKE 'runs.%'");
  for (const [n, damage] of DAMAGE.entries())
    db.prepare("UPDATE events SET actions = ? WHERE id = ?").run(damage, ids[n] as string);
  db.close();

  world = await createWorld({ dir, config, logLevel: "trace" });
  const of = world;
  const statusOf = async (id: string): Promise<string> =>
    (await of.get(`/hooks/runs/${id}`)).body.run?.status as string;
  for (const { run } of [before, behind])
    await of.until(async () => (await statusOf(run)) === "succeeded");
  for (const id of ids) {
    const { event } = (await of.admin(`/admin/v1/events/${id}`)).body as { event: Event };
    expect(event).toMatchObject({ outcome: "failed", actions: [] });
    expect(event.reason).toMatch(/^broken: its work could not be queued/);
    expect(
      of.logged.filter((line) => line.includes(id) && line.includes("an accepted event is broken")),
    ).toHaveLength(1);
  }
  const { events } = (await of.admin("/admin/v1/events?outcome=failed")).body as {
    events: Event[];
  };
  expect(events.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
  const checkEvents = async (): Promise<{ status: string; message: string } | undefined> =>
    (
      (await of.admin("/admin/v1/doctor")).body.checks as {
        id: string;
        status: string;
        message: string;
      }[]
    ).find(({ id }) => id === "events");
  expect(await checkEvents()).toMatchObject({
    status: "warn",
    message: expect.stringMatching(/evt_/) as string,
  });
  for (const id of ids) {
    const { result } = (
      await of.admin(`/admin/v1/events/${id}/replay`, { method: "POST", body: "{}" })
    ).body;
    expect(result).toMatchObject({ outcome: "accepted" });
    expect((await of.admin(`/admin/v1/events/${id}`)).body.event.handled).toMatchObject({
      as: "replayed",
      eventId: result.newEventId as string,
    });
  }
  expect(await checkEvents()).toMatchObject({ status: "ok" });
  // A redelivery by the sender is no repeat of something that was done.
  const again = await post("damaged", { "idempotency-key": "order-0" });
  expect(again.run).not.toBe(broken[0]?.run);
  await of.until(async () => (await statusOf(again.run)) === "succeeded");
});
