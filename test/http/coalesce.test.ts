import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LocalBatches } from "../../src/queue/batches.ts";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type Answer, type World, type WorldOptions } from "../e2e/world.ts";

let world: World;
let provider: Provider;
beforeEach(async () => {
  provider = await createProvider();
});
afterEach(async () => {
  await world.stop();
  await provider.close();
});

const MESSAGE =
  '{{ $string(count) & " events of " & shop & ": " & $join(events.$string(id), ",") & "; first " & $string(first.id) & ", last " & $string(last.id) }}';
const mapping = (coalesce: object, more: object = {}) => ({
  id: "orders",
  match: { path: "orders" },
  sessionKey: "hook:{{shop}}",
  messageTemplate: MESSAGE,
  wakeMode: "next-heartbeat",
  coalesce: { windowSeconds: 0.4, key: "{{shop}}", ...coalesce },
  ...more,
});
const start = (mappings: object[], more: WorldOptions = {}) =>
  createWorld({ ...more, config: { ...modelConfig(provider), hooks: { mappings } } });
const post = (shop: string, id: number, more: object = {}) =>
  world.post("/hooks/orders", { shop, id, ...more });
const runOf = async (answer: Answer) =>
  (await world.admin(`/admin/v1/runs/${answer.body.runId}`)).body.run;
const ended = (answer: Answer, status = "succeeded") =>
  world.until(async () => {
    const run = await runOf(answer);
    return run.status === status && run;
  });
const inputOf = async (answer: Answer): Promise<string> =>
  ((await ended(answer)).input as { text: string }[]).map((part) => part.text).join("");

describe("events that come together", () => {
  it("become one run, whose id all answers name, with all of them in its message", async () => {
    world = await start([mapping({})]);
    const answers = [
      await post("a", 1),
      await post("a", 2),
      await post("b", 9),
      await post("a", 3),
    ];
    expect(answers[0]).toMatchObject({
      status: 202,
      body: { status: "collecting", sessionKey: "hook:a", mapping: "orders" },
    });
    expect(new Set([0, 1, 3].map((index) => answers[index]?.body.runId)).size).toBe(1);
    expect(answers[2]?.body.runId).not.toBe(answers[0]?.body.runId);
    const [first, other] = [answers[0] as Answer, answers[2] as Answer];
    expect((await world.get(`/hooks/runs/${first.body.runId}`)).body.run).toMatchObject({
      status: "collecting",
      startedAt: null,
    });
    expect(await inputOf(first)).toBe("3 events of a: 1,2,3; first 1, last 3");
    expect(await inputOf(other)).toBe("1 events of b: 9; first 9, last 9");
    expect((await runOf(first)).collected).toBe(3);
    expect(provider.requests).toHaveLength(2);
    const receipt = (await world.get(`/hooks/events/${answers[3]?.body.eventId}`)).body.event;
    expect(receipt).toMatchObject({
      outcome: "accepted",
      actions: [{ kind: "run", runId: first.body.runId, status: "succeeded" }],
    });
    // The window is closed: the next event opens another.
    expect((await post("a", 4)).body.runId).not.toBe(first.body.runId);
  });

  it("keep their numbers as they were sent", async () => {
    const messageTemplate =
      "{{ events.price }} {{ $join(events.(price & ''), ' ') }} {{ '' & events }} {{ first.price }} {{ events.only }}";
    world = await start([mapping({ maxEvents: 2, windowSeconds: 60 }, { messageTemplate })]);
    const bodies = ['{"shop":"a","price":19.90,"only":5.0}', '{"shop":"a","price":3.0}'];
    const [first] = [
      await world.post("/hooks/orders", bodies[0]),
      await world.post("/hooks/orders", bodies[1]),
    ];
    expect(await inputOf(first)).toBe(`[19.90,3.0] 19.90 3.0 [${bodies.join()}] 19.90 5.0`);
  });

  it("wait for quiet, but not longer than maxSeconds", async () => {
    world = await start([mapping({ windowSeconds: 0.3, maxSeconds: 0.7 })]);
    const answers = [await post("a", 1)];
    for (let n = 2; n < 12; n++) {
      await new Promise((done) => setTimeout(done, 120));
      answers.push(await post("a", n));
    }
    // By the times at which the events came: no window closes early. On a busy machine one may close late.
    const events = await Promise.all(
      answers.map(async ({ body: { eventId, runId } }): Promise<{ at: number; runId: string }> => {
        const { event } = (await world.admin(`/admin/v1/events/${eventId}`)).body;
        return { at: Date.parse(event.receivedAt), runId };
      }),
    );
    let first = events[0]?.at ?? 0;
    for (const [index, { at, runId }] of events.slice(1).entries()) {
      const before = events[index] as { at: number; runId: string };
      const [quiet, whole] = [at - before.at, at - first];
      if (runId === before.runId) continue;
      expect(Math.max(quiet - 300, whole - 700)).toBeGreaterThan(-100);
      first = at;
    }
    const counts = Map.groupBy(events, ({ runId }) => runId);
    expect(counts.size).toBeGreaterThanOrEqual(2);
    const [opened] = answers as [Answer];
    expect((await ended(opened)).collected).toBe(counts.get(opened.body.runId)?.length);
  });

  it("run immediately when there are maxEvents", async () => {
    world = await start([mapping({ windowSeconds: 3600, maxEvents: 3 })]);
    const answers: Answer[] = [];
    for (let n = 1; n <= 4; n++) answers.push(await post("a", n));
    expect(await inputOf(answers[0] as Answer)).toContain("3 events of a: 1,2,3");
    expect(answers[3]?.body.runId).not.toBe(answers[2]?.body.runId);
    expect((await runOf(answers[3] as Answer)).status).toBe("collecting");
  });

  it("reach a transform as events, count, first and last, one by one and together", async () => {
    const module = `export default ({ payload, events, count, first, last }) => {
      if (payload.skip) return null;
      return { message: count + ":" + events.map((event) => event.id).join("+") + ":" + first.id + ":" + last.id, sessionKey: "hook:t:" + count };
    };`;
    world = await start(
      [
        mapping(
          { maxEvents: 3, windowSeconds: 60 },
          { messageTemplate: undefined, sessionKey: undefined, transform: { module: "all.js" } },
        ),
      ],
      {
        files: { "transforms/all.js": module },
      },
    );
    const first = await post("a", 1);
    expect((await post("a", 2, { skip: true })).status).toBe(204);
    await post("a", 3);
    await post("a", 4);
    const run = await ended(first);
    expect(run.input[0].text).toBe("3:1+3+4:1:4");
    expect(run.sessionKey).toBe("hook:t:3");
  });

  it("are reported if together they have no effect, or cannot be combined", async () => {
    const module = `export default ({ count, payload }) => (count === 1 ? { message: "one" } : payload.how === "null" ? null : { message: "x", agentId: "nobody" });`;
    world = await start(
      [
        mapping(
          { maxEvents: 2, windowSeconds: 60 },
          { messageTemplate: undefined, transform: { module: "all.js" } },
        ),
      ],
      {
        files: { "transforms/all.js": module },
      },
    );
    const nothing = await post("a", 1, { how: "null" });
    await post("a", 2, { how: "null" });
    expect((await ended(nothing, "cancelled")).error).toEqual({
      code: "skipped",
      message: "the transform gave null",
    });
    const wrong = await post("a", 3, { how: "agent" });
    await post("a", 4, { how: "agent" });
    expect((await ended(wrong, "failed")).error.code).toBe("unknown_agent");
    const { queued } = (await world.admin("/admin/v1/sessions/show?key=main")).body;
    expect(queued.map((event: { text: { text: string }[] }) => event.text[0]?.text)).toEqual([
      "Hook Hook failed: the transform gave null",
      expect.stringContaining("Hook Hook failed: agentId"),
    ]);
  });

  it("are collected once, where they have a key", async () => {
    world = await start([mapping({ windowSeconds: 0.3 }, { dedupeKey: "{{id}}" })]);
    const first = await post("a", 1);
    const again = await post("a", 1);
    expect([again.body.runId, again.body.duplicate]).toEqual([first.body.runId, true]);
    await post("a", 2);
    expect(await inputOf(first)).toContain("2 events of a: 1,2");
  });

  it("are still there after a restart, in the same window", async () => {
    world = await start([mapping({ windowSeconds: 2 })]);
    const first = await post("a", 1);
    const { dir } = world;
    await world.gateway.stop();
    const before = world;
    world = await createWorld({
      dir,
      config: { ...modelConfig(provider), hooks: { mappings: [mapping({ windowSeconds: 1 })] } },
    });
    expect((await post("a", 2)).body.runId).toBe(first.body.runId);
    expect(await inputOf(first)).toContain("2 events of a: 1,2");
    await world.stop();
    world = { ...before, stop: async () => undefined };
  });

  it("can be cancelled; the next one opens another window", async () => {
    world = await start([mapping({ windowSeconds: 3600 })]);
    const first = await post("a", 1);
    await world.admin(`/admin/v1/runs/${first.body.runId}/cancel`, { method: "POST", body: "{}" });
    expect((await runOf(first)).status).toBe("cancelled");
    const second = await post("a", 2);
    expect(second.body.runId).not.toBe(first.body.runId);
    expect(provider.requests).toEqual([]);
  });

  it("spend of the limits once, when their window closes", async () => {
    world = await start([
      mapping({ maxEvents: 2, windowSeconds: 60 }, { limits: { runsPerHour: 1, queue: 2 } }),
    ]);
    const first = await post("a", 1);
    await post("a", 2);
    await ended(first);
    const second = await post("a", 3);
    await post("a", 4);
    await ended(second, "parked");
    await post("b", 5);
    expect((await post("c", 6)).status).toBe(503);
    // It joins a window that is open: nothing more waits.
    expect((await post("b", 6)).status).toBe(202);
  });
});

describe("a window that closes", () => {
  it("waits for events whose answers are on their way, and takes no other", async () => {
    world = await createWorld({ start: false });
    const windows = new LocalBatches();
    const join = (runId: string, at: number) => {
      const spec = { session: { agentId: "main", origin: "hook", key: "hook:1" } };
      const action = { kind: "run", runId, mapping: "m", spec, warnings: [] };
      const event = { at, payload: "1", headers: {}, query: {}, path: "p" };
      const settings = { key: "k", windowSeconds: 1, maxSeconds: 10, maxEvents: 10 };
      return windows.join({ action: action as never, batch: { ...settings, event } });
    };
    join("run_1", 1000).settle(true);
    const { placement, settle } = join("run_2", 1500);
    expect([placement.runId, placement.batch.closesAt]).toEqual(["run_1", 2500]);
    expect(await windows.close("run_1", 2000)).toBe(2500);
    let closed = false;
    const closing = windows.close("run_1", 2500).then(() => (closed = true));
    await new Promise((done) => setTimeout(done, 5));
    expect(closed).toBe(false);
    expect(join("run_3", 2400).placement.runId).toBe("run_3");
    settle(true);
    await closing;
  });
});

describe("coalesce in the config", () => {
  it("is refused if it cannot work", async () => {
    world = await createWorld({ start: false });
    const load = (more: object) => start([mapping({}, more)], { start: false });
    await expect(load({ forEach: "items" })).rejects.toThrow(
      /coalesce: cannot stand beside `forEach`/,
    );
    await expect(load({ coalesce: { windowSeconds: 5, maxSeconds: 1 } })).rejects.toThrow(
      /maxSeconds: must not be less than windowSeconds/,
    );
    await expect(load({ coalesce: { windowSeconds: 5, key: "{{ ( }}" } })).rejects.toThrow(
      /coalesce\.key/,
    );
  });
});
