import { describe, expect, it } from "vitest";
import type { Job, JobKind, RunAction } from "../../../src/store/types.ts";
import { until } from "../../../src/testing/harness.ts";
import {
  DAY,
  dedupe,
  event,
  hookSession,
  messageSpec,
  runAction,
  spec,
  START,
  turn,
  wakeAction,
} from "./make.ts";
import type { Stage } from "./stage.ts";

const TRACE = {
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  tracestate: "vendor=a",
};

/** Events: kept whole, their work queued in the same commit, and each done once. */
export function testAccept(stage: Stage): void {
  describe("accept", () => {
    it("keeps an event whole", async () => {
      const given = event({
        address: "203.0.113.9",
        reason: "because",
        mapping: "alerts",
        missing: ["a.b"],
        duplicateOf: "evt_old",
        replayOf: "evt_older",
        trace: TRACE,
        actions: [
          runAction("hook:ü", {
            mapping: "alerts",
            warnings: ["cut"],
            spec: spec("hook:ü", { trace: { ...TRACE, links: [TRACE] } }),
          }),
          wakeAction(),
        ],
        request: {
          method: "GET",
          headers: { a: "1" },
          query: { q: "ü" },
          body: new Uint8Array([0, 255, 10, 0]),
        },
      });
      expect(await stage.store.accept(given)).toEqual({ kind: "accepted" });
      await stage.reopen();
      const kept = await stage.store.events.get(given.id);
      expect({
        ...kept,
        request: { ...kept?.request, body: [...(kept?.request.body ?? [])] },
      }).toEqual({
        ...given,
        request: { ...given.request, body: [0, 255, 10, 0] },
      });
      expect(await stage.store.events.get("evt_nobody")).toBeUndefined();
    });

    it("gives every body back byte for byte, whatever its size and kind", async () => {
      const json = new TextEncoder().encode(
        JSON.stringify(Array.from({ length: 2000 }, (_, n) => ({ n, text: "日本語 " }))),
      );
      const noise = crypto.getRandomValues(new Uint8Array(50_000));
      const bodies = [
        new Uint8Array(),
        json,
        noise,
        json.subarray(0, 4095),
        json.subarray(0, 4096),
      ];
      for (const body of bodies) {
        const given = event({ request: { method: "POST", headers: {}, query: {}, body } });
        await stage.store.accept(given);
        const kept = (await stage.store.events.get(given.id))?.request;
        expect(Buffer.compare(Buffer.from(kept?.body ?? "lost"), Buffer.from(body))).toBe(0);
        expect(kept).toEqual({ ...given.request, body: kept?.body });
      }
    });

    it("keeps what no text of a database likes to hold: U+0000, and halves of surrogate pairs", async () => {
      const odd = 'a\0b \u{10FFFF}0 \ud83d "\\u0000"';
      const action = runAction(odd, {
        spec: { ...spec("hook:a\0b"), input: [{ text: odd, outside: true }], name: odd },
      });
      const given = event({
        path: "a\0b",
        mapping: "m\0",
        actions: [action],
        request: { method: "GET", headers: {}, query: { q: odd }, body: null },
      });
      await stage.store.accept(given, [dedupe({ key: "k\0" })]);
      expect(await stage.store.events.get(given.id)).toEqual(given);
      expect(await stage.store.events.list({ path: "a\0b" })).toHaveLength(1);
      expect(await stage.store.runs.get(action.runId)).toMatchObject({
        spec: action.spec,
      });
      expect(await stage.queue.fetch("turn", 1)).toMatchObject([{ key: "main/hook/hook:a\0b" }]);
      expect(
        await stage.store.findDuplicates([dedupe({ key: "k\0" }), dedupe({ key: "k" })]),
      ).toMatchObject([{ key: "k\0" }, undefined]);
      await stage.store.commit((tx) => {
        tx.sessions.addTurn(
          hookSession("s\0"),
          turn("r", { hook: odd, messages: [{ role: "assistant", content: odd }] }),
        );
        tx.values.set("odd", odd);
      });
      expect(await stage.store.sessions.listTurns(hookSession("s\0"))).toMatchObject([
        { hook: odd, messages: [{ content: odd }] },
      ]);
      expect(await stage.store.sessions.list({})).toMatchObject([{ ref: hookSession("s\0") }]);
      expect(await stage.store.values.get("odd")).toBe(odd);
    });

    it("keeps an event without a body and without work, and queues nothing for it", async () => {
      const given = event({
        outcome: "unmatched",
        status: 404,
        nearest: { mapping: "a", condition: "match.when" },
        request: { method: "POST", headers: {}, query: {}, body: null },
      });
      await stage.store.accept(given);
      expect(await stage.store.events.get(given.id)).toEqual(given);
      expect(await stage.queue.fetch("turn", 1)).toEqual([]);
      expect(await stage.store.runs.list({})).toEqual([]);
    });

    it("makes a queued run and its job of a run action", async () => {
      const action = runAction("hook:one", { mapping: "alerts", warnings: ["cut"] });
      const given = event({ actions: [action] });
      await stage.store.accept(given);
      expect(await stage.store.runs.get(action.runId)).toEqual({
        id: action.runId,
        eventId: given.id,
        kind: "hook",
        mapping: "alerts",
        status: "queued",
        spec: action.spec,
        warnings: ["cut"],
        attempts: 0,
        restarts: 0,
        createdAt: START,
      });
      const jobs = await stage.queue.fetch("turn", 5);
      expect(jobs).toMatchObject([
        {
          id: action.runId,
          key: "main/hook/hook:one",
          data: { type: "run", runId: action.runId },
          attempts: 1,
          enqueuedAt: START,
        },
      ]);
    });

    it("makes jobs of a command that no turn of its session holds back, and of `/new` one in the turns' order as well", async () => {
      const asked = runAction("hook:one");
      const command = (name: "stop" | "new"): RunAction => ({
        ...runAction(),
        spec: messageSpec("hook:one", { command: { name } }),
      });
      const [stop, begin] = [command("stop"), command("new")];
      const ready: JobKind[] = [];
      stage.queue.onReady((kind) => ready.push(kind));
      for (const action of [asked, stop, begin])
        await stage.store.accept(event({ actions: [action] }));
      await until(() => ready.includes("command"));
      const [held] = await stage.queue.fetch("turn", 5);
      expect(held).toMatchObject({ id: asked.runId });
      const [first] = await stage.queue.fetch("command", 5);
      expect(first).toMatchObject({ id: stop.runId, data: { type: "run", runId: stop.runId } });
      await stage.store.commit((tx) => tx.jobs.settle(first as Job), first);
      expect(await stage.queue.fetch("command", 5)).toMatchObject([{ id: begin.runId }]);
      expect(await stage.queue.fetch("turn", 5)).toEqual([]);
      expect(await stage.store.counts()).toMatchObject({
        "jobs.turn": 2,
        "jobs.command": 1,
      });
      await stage.store.commit((tx) => tx.jobs.settle(held as Job), held);
      expect(await stage.queue.fetch("turn", 5)).toMatchObject([{ id: begin.runId }]);
    });

    it("keeps the order of what came in, within a key", async () => {
      const actions = Array.from({ length: 700 }, () => runAction("hook:one"));
      await Promise.all(actions.map((action) => stage.store.accept(event({ actions: [action] }))));
      const taken: string[] = [];
      for (let n = 0; n < 3; n++) {
        const [one] = await stage.queue.fetch("turn", 5);
        if (!one) break;
        taken.push(one.id);
        await stage.store.commit((tx) => tx.jobs.settle(one), one);
      }
      expect(taken).toEqual(actions.slice(0, 3).map((action) => action.runId));
      expect((await stage.store.runs.list({ limit: 1000 })).map((one) => one.id)).toEqual(
        actions.map((action) => action.runId).toReversed(),
      );
    });

    it("makes a queued system event of a wake action and tells who listens", async () => {
      const heard: string[] = [];
      const undo = stage.store.onSystemEvents(
        (agentId, mode) => void heard.push(`${agentId} ${mode}`),
      );
      const [first, second] = [
        wakeAction({ mode: "next-heartbeat", unsafe: true }),
        wakeAction({ agentId: "other" }),
      ];
      await stage.store.accept(event({ actions: [first, second] }));
      await until(() => heard.length > 1);
      expect(heard).toEqual(["main next-heartbeat", "other now"]);
      const { systemEventId: id, agentId, text, mode, unsafe } = first;
      expect(await stage.store.systemEvents.listQueued({ agentId: "main", limit: 10 })).toEqual([
        {
          seq: expect.any(Number),
          id,
          agentId,
          at: START,
          text,
          source: "wake",
          mode,
          unsafe,
          state: "queued",
          failures: 0,
        },
      ]);
      undo();
      await stage.store.accept(event({ actions: [wakeAction()] }));
      expect(
        await stage.store.systemEvents.listQueued({ agentId: "main", limit: 10 }),
      ).toHaveLength(2);
      expect(heard).toHaveLength(2);
    });

    it("takes up work that was accepted just before the store was closed, once", async () => {
      const action = runAction();
      const pending = stage.store.accept(event({ actions: [action, wakeAction()] }));
      await stage.store.close();
      await pending;
      for (let n = 0; n < 2; n++) {
        await stage.open();
        await stage.queue.recover();
        expect(await stage.store.runs.list({})).toHaveLength(1);
        expect(
          await stage.store.systemEvents.listQueued({ agentId: "main", limit: 10 }),
        ).toHaveLength(1);
        expect((await stage.queue.fetch("turn", 5)).map((one) => one.id)).toEqual([action.runId]);
        await stage.store.close();
      }
      await stage.open();
    });

    it("takes up at its start, without being asked, what was left", async () => {
      const pending = stage.store.accept(event({ actions: [runAction()] }));
      await stage.reopen();
      await pending;
      const heard: string[] = [];
      stage.queue.onReady((kind) => heard.push(kind));
      await until(() => heard.length > 0);
      expect(heard).toEqual(["turn"]);
    });

    it("after its end refuses, and never says that work is kept which is not", async () => {
      await stage.store.close();
      await expect(stage.store.accept(event())).rejects.toMatchObject({
        code: "store_unavailable",
      });
      await stage.open();
    });
  });

  describe("duplicates", () => {
    it("give back what holds the key, and write nothing", async () => {
      const first = event({ actions: [runAction()] });
      await stage.store.accept(first, [dedupe({ bodyHash: "abc" })]);
      const repeat = event({ actions: [runAction()] });
      const expected = { ...dedupe({ bodyHash: "abc" }), eventId: first.id };
      expect(await stage.store.accept(repeat, [dedupe({ key: "free" }), dedupe()])).toEqual({
        kind: "duplicate",
        record: expected,
      });
      expect(await stage.store.events.get(repeat.id)).toBeUndefined();
      expect(await stage.store.runs.list({})).toHaveLength(1);
      expect(
        await stage.store.findDuplicates([{ scope: dedupe().scope, key: "free" }, dedupe()]),
      ).toEqual([undefined, expected]);
    });

    it("are seen within one commit: of many at the same moment one is accepted", async () => {
      const events = Array.from({ length: 20 }, () => event({ actions: [runAction()] }));
      const results = await Promise.all(events.map((one) => stage.store.accept(one, [dedupe()])));
      expect(results.filter((result) => result.kind === "accepted")).toHaveLength(1);
      const holder = results.find((result) => result.kind === "duplicate");
      expect(holder).toMatchObject({
        record: { eventId: events[results.findIndex((result) => result.kind === "accepted")]?.id },
      });
      expect(await stage.store.events.list({})).toHaveLength(1);
      expect(await stage.store.runs.list({})).toHaveLength(1);
    });

    it("are none in another scope, and none after their time", async () => {
      await stage.store.accept(event(), [dedupe()]);
      expect(await stage.store.accept(event(), [dedupe({ scope: "other" })])).toEqual({
        kind: "accepted",
      });
      stage.clock.advance(DAY - 1);
      expect(await stage.store.accept(event(), [dedupe()])).toMatchObject({
        kind: "duplicate",
      });
      stage.clock.advance(1);
      const [gone] = await stage.store.findDuplicates([dedupe()]);
      expect(gone).toBeUndefined();
      const next = event();
      expect(await stage.store.accept(next, [dedupe({ expiresAt: START + 2 * DAY })])).toEqual({
        kind: "accepted",
      });
      expect(await stage.store.findDuplicates([dedupe()])).toMatchObject([{ eventId: next.id }]);
    });

    it("keep an action's item", async () => {
      await stage.store.accept(event(), [dedupe({ item: { ok: true, runId: "r" } })]);
      await stage.reopen();
      expect(await stage.store.findDuplicates([dedupe()])).toMatchObject([
        { item: { ok: true, runId: "r" } },
      ]);
    });
  });

  it("an event whose keys cannot be kept is not kept either", async () => {
    const given = event();
    const other = event();
    const results = await Promise.allSettled([
      stage.store.accept(given, [dedupe(), dedupe({ key: "k2", item: 1n })]),
      stage.store.accept(other, [dedupe()]),
    ]);
    expect(results.map((result) => result.status)).toEqual(["rejected", "fulfilled"]);
    expect(results[1]).toMatchObject({ value: { kind: "accepted" } });
    expect((await stage.store.events.list({})).map((one) => one.id)).toEqual([other.id]);
  });
}
