import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RouseError } from "../../src/core/errors.ts";
import { sessionId, type Job, type JobKind, type StoreHandle } from "../../src/store/types.ts";
import {
  DAY,
  dedupe,
  delivery,
  event,
  hookSession,
  HOUR,
  job,
  run,
  runAction,
  spec,
  START,
  systemEvent,
  turn,
  until,
  wakeAction,
  type Home,
} from "./make.ts";
import { listContract } from "./store-lists.ts";
import { sweepContract } from "./store-sweep.ts";

/** What every store keeps to, whatever it is built on. */
export function storeContract(name: string, makeHome: () => Promise<Home>): void {
  describe(`store on ${name}`, () => {
    let home: Home;
    let handle: StoreHandle;

    beforeEach(async () => {
      home = await makeHome();
      handle = await home.open();
    });
    afterEach(async () => {
      await handle.store.close();
      await home.remove();
    });
    const reopen = async (): Promise<void> => {
      await handle.store.close();
      handle = await home.open();
    };

    describe("accept", () => {
      it("keeps an event whole", async () => {
        const given = event({
          address: "203.0.113.9",
          reason: "because",
          mapping: "alerts",
          missing: ["a.b"],
          duplicateOf: "evt_old",
          replayOf: "evt_older",
          actions: [runAction("hook:ü", { mapping: "alerts", warnings: ["cut"] }), wakeAction()],
          request: { method: "GET", headers: { a: "1" }, query: { q: "ü" }, body: new Uint8Array([0, 255, 10, 0]) },
        });
        expect(await handle.store.accept(given)).toEqual({ kind: "accepted" });
        await reopen();
        const kept = await handle.store.getEvent(given.id);
        expect({ ...kept, request: { ...kept?.request, body: [...(kept?.request.body ?? [])] } }).toEqual({
          ...given,
          request: { ...given.request, body: [0, 255, 10, 0] },
        });
        expect(await handle.store.getEvent("evt_nobody")).toBeUndefined();
      });

      it("gives every body back byte for byte, whatever its size and kind", async () => {
        const json = new TextEncoder().encode(JSON.stringify(Array.from({ length: 2000 }, (_, n) => ({ n, text: "日本語 " }))));
        const noise = crypto.getRandomValues(new Uint8Array(50_000));
        const bodies = [new Uint8Array(), json, noise, json.subarray(0, 4095), json.subarray(0, 4096)];
        for (const body of bodies) {
          const given = event({ request: { method: "POST", headers: {}, query: {}, body } });
          await handle.store.accept(given);
          const kept = (await handle.store.getEvent(given.id))?.request;
          expect(Buffer.compare(Buffer.from(kept?.body ?? "lost"), Buffer.from(body))).toBe(0);
          expect(kept).toEqual({ ...given.request, body: kept?.body });
        }
      });

      it("keeps what no text of a database likes to hold: U+0000, and halves of surrogate pairs", async () => {
        const odd = 'a\0b \u{10FFFF}0 \ud83d "\\u0000"';
        const action = runAction(odd, { spec: { ...spec("hook:a\0b"), input: [{ text: odd, outside: true }], name: odd } });
        const given = event({
          path: "a\0b",
          mapping: "m\0",
          actions: [action],
          request: { method: "GET", headers: {}, query: { q: odd }, body: null },
        });
        await handle.store.accept(given, [dedupe({ key: "k\0" })]);
        expect(await handle.store.getEvent(given.id)).toEqual(given);
        expect(await handle.store.listEvents({ path: "a\0b" })).toHaveLength(1);
        expect(await handle.store.getRun(action.runId)).toMatchObject({ spec: action.spec });
        expect(await handle.queue.fetch("turn", 1)).toMatchObject([{ key: "main/hook/hook:a\0b" }]);
        expect(await handle.store.findDuplicates([dedupe({ key: "k\0" }), dedupe({ key: "k" })])).toMatchObject([
          { key: "k\0" },
          undefined,
        ]);
        await handle.store.commit((tx) => {
          tx.appendTurn(hookSession("s\0"), turn("r", { hook: odd, messages: [{ role: "assistant", content: odd }] }));
          tx.setValue("odd", odd);
        });
        expect(await handle.store.getTurns(hookSession("s\0"))).toMatchObject([{ hook: odd, messages: [{ content: odd }] }]);
        expect(await handle.store.listSessions({})).toMatchObject([{ ref: hookSession("s\0") }]);
        expect(await handle.store.getValue("odd")).toBe(odd);
      });

      it("keeps an event without a body and without work, and queues nothing for it", async () => {
        const given = event({
          outcome: "unmatched",
          status: 404,
          nearest: { mapping: "a", condition: "match.when" },
          request: { method: "POST", headers: {}, query: {}, body: null },
        });
        await handle.store.accept(given);
        expect(await handle.store.getEvent(given.id)).toEqual(given);
        expect(await handle.queue.fetch("turn", 1)).toEqual([]);
        expect(await handle.store.listRuns({})).toEqual([]);
      });

      it("makes a queued run and its job of a run action", async () => {
        const action = runAction("hook:one", { mapping: "alerts", warnings: ["cut"] });
        const given = event({ actions: [action] });
        await handle.store.accept(given);
        expect(await handle.store.getRun(action.runId)).toEqual({
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
        const jobs = await handle.queue.fetch("turn", 5);
        expect(jobs).toMatchObject([
          { id: action.runId, key: "main/hook/hook:one", data: { type: "run", runId: action.runId }, attempts: 1, enqueuedAt: START },
        ]);
      });

      it("makes jobs of a command that no turn of its session holds back, and of `/new` one in the turns' order as well", async () => {
        const asked = runAction("hook:one");
        const stop = runAction("hook:one", { spec: spec("hook:one", { command: "stop" }) });
        const begin = runAction("hook:one", { spec: spec("hook:one", { command: "new" }) });
        const ready: JobKind[] = [];
        handle.queue.onReady((kind) => ready.push(kind));
        for (const action of [asked, stop, begin]) await handle.store.accept(event({ actions: [action] }));
        await until(() => ready.includes("command"));
        const [held] = await handle.queue.fetch("turn", 5);
        expect(held).toMatchObject({ id: asked.runId });
        const [first] = await handle.queue.fetch("command", 5);
        expect(first).toMatchObject({ id: stop.runId, data: { type: "run", runId: stop.runId } });
        await handle.store.commit((tx) => tx.completeJob(first as Job), first);
        expect(await handle.queue.fetch("command", 5)).toMatchObject([{ id: begin.runId }]);
        expect(await handle.queue.fetch("turn", 5)).toEqual([]);
        expect(await handle.store.counts()).toMatchObject({ "jobs.turn": 2, "jobs.command": 1 });
        await handle.store.commit((tx) => tx.completeJob(held as Job), held);
        expect(await handle.queue.fetch("turn", 5)).toMatchObject([{ id: begin.runId }]);
      });

      it("keeps the order of what came in, within a key", async () => {
        const actions = Array.from({ length: 700 }, () => runAction("hook:one"));
        await Promise.all(actions.map((action) => handle.store.accept(event({ actions: [action] }))));
        const taken: string[] = [];
        for (let n = 0; n < 3; n++) {
          const [one] = await handle.queue.fetch("turn", 5);
          if (!one) break;
          taken.push(one.id);
          await handle.store.commit((tx) => tx.completeJob(one), one);
        }
        expect(taken).toEqual(actions.slice(0, 3).map((action) => action.runId));
        expect((await handle.store.listRuns({ limit: 1000 })).map((one) => one.id)).toEqual(
          actions.map((action) => action.runId).toReversed(),
        );
      });

      it("makes a queued system event of a wake action and tells who listens", async () => {
        const heard: string[] = [];
        const undo = handle.store.onSystemEvents((agentId, mode) => void heard.push(`${agentId} ${mode}`));
        const [first, second] = [wakeAction({ mode: "next-heartbeat", unsafe: true }), wakeAction({ agentId: "other" })];
        await handle.store.accept(event({ actions: [first, second] }));
        await until(() => heard.length > 1);
        expect(heard).toEqual(["main next-heartbeat", "other now"]);
        const { systemEventId: id, agentId, text, mode, unsafe } = first;
        expect(await handle.store.queuedSystemEvents("main", 10)).toEqual([
          { seq: expect.any(Number), id, agentId, at: START, text, source: "wake", mode, unsafe, state: "queued", failures: 0 },
        ]);
        undo();
        await handle.store.accept(event({ actions: [wakeAction()] }));
        expect(await handle.store.queuedSystemEvents("main", 10)).toHaveLength(2);
        expect(heard).toHaveLength(2);
      });

      it("takes up work that was accepted just before the store was closed, once", async () => {
        const action = runAction();
        const pending = handle.store.accept(event({ actions: [action, wakeAction()] }));
        await handle.store.close();
        await pending;
        for (let n = 0; n < 2; n++) {
          handle = await home.open();
          await handle.queue.recover();
          expect(await handle.store.listRuns({})).toHaveLength(1);
          expect(await handle.store.queuedSystemEvents("main", 10)).toHaveLength(1);
          expect((await handle.queue.fetch("turn", 5)).map((one) => one.id)).toEqual([action.runId]);
          await handle.store.close();
        }
        handle = await home.open();
      });

      it("takes up at its start, without being asked, what was left", async () => {
        const pending = handle.store.accept(event({ actions: [runAction()] }));
        await reopen();
        await pending;
        const heard: string[] = [];
        handle.queue.onReady((kind) => heard.push(kind));
        await until(() => heard.length > 0);
        expect(heard).toEqual(["turn"]);
      });

      it("after its end refuses, and never says that work is kept which is not", async () => {
        await handle.store.close();
        await expect(handle.store.accept(event())).rejects.toMatchObject({ code: "store_unavailable" });
        handle = await home.open();
      });
    });

    describe("duplicates", () => {
      it("give back what holds the key, and write nothing", async () => {
        const first = event({ actions: [runAction()] });
        await handle.store.accept(first, [dedupe({ bodyHash: "abc" })]);
        const repeat = event({ actions: [runAction()] });
        const expected = { ...dedupe({ bodyHash: "abc" }), eventId: first.id };
        expect(await handle.store.accept(repeat, [dedupe({ key: "free" }), dedupe()])).toEqual({ kind: "duplicate", record: expected });
        expect(await handle.store.getEvent(repeat.id)).toBeUndefined();
        expect(await handle.store.listRuns({})).toHaveLength(1);
        expect(await handle.store.findDuplicates([{ scope: dedupe().scope, key: "free" }, dedupe()])).toEqual([undefined, expected]);
      });

      it("are seen within one commit: of many at the same moment one is accepted", async () => {
        const events = Array.from({ length: 20 }, () => event({ actions: [runAction()] }));
        const results = await Promise.all(events.map((one) => handle.store.accept(one, [dedupe()])));
        expect(results.filter((result) => result.kind === "accepted")).toHaveLength(1);
        const holder = results.find((result) => result.kind === "duplicate");
        expect(holder).toMatchObject({ record: { eventId: events[results.findIndex((result) => result.kind === "accepted")]?.id } });
        expect(await handle.store.listEvents({})).toHaveLength(1);
        expect(await handle.store.listRuns({})).toHaveLength(1);
      });

      it("are none in another scope, and none after their time", async () => {
        await handle.store.accept(event(), [dedupe()]);
        expect(await handle.store.accept(event(), [dedupe({ scope: "other" })])).toEqual({ kind: "accepted" });
        home.clock.advance(DAY - 1);
        expect(await handle.store.accept(event(), [dedupe()])).toMatchObject({ kind: "duplicate" });
        home.clock.advance(1);
        const [gone] = await handle.store.findDuplicates([dedupe()]);
        expect(gone).toBeUndefined();
        const next = event();
        expect(await handle.store.accept(next, [dedupe({ expiresAt: START + 2 * DAY })])).toEqual({ kind: "accepted" });
        expect(await handle.store.findDuplicates([dedupe()])).toMatchObject([{ eventId: next.id }]);
      });

      it("keep an action's item", async () => {
        await handle.store.accept(event(), [dedupe({ item: { ok: true, runId: "r" } })]);
        await reopen();
        expect(await handle.store.findDuplicates([dedupe()])).toMatchObject([{ item: { ok: true, runId: "r" } }]);
      });
    });

    it("an event whose keys cannot be kept is not kept either", async () => {
      const given = event();
      const other = event();
      const results = await Promise.allSettled([
        handle.store.accept(given, [dedupe(), dedupe({ key: "k2", item: 1n })]),
        handle.store.accept(other, [dedupe()]),
      ]);
      expect(results.map((result) => result.status)).toEqual(["rejected", "fulfilled"]);
      expect(results[1]).toMatchObject({ value: { kind: "accepted" } });
      expect((await handle.store.listEvents({})).map((one) => one.id)).toEqual([other.id]);
    });

    describe("a commit", () => {
      it("harms no other of its group when it fails", async () => {
        const first = event();
        const failure = new Error("of the caller");
        const results = await Promise.allSettled([
          handle.store.accept(first),
          handle.store.accept({ ...event(), id: first.id }),
          handle.store.accept({ ...event(), id: first.id }, [dedupe()]),
          handle.store.commit((tx) => {
            tx.setValue("half", 1);
            throw failure;
          }),
          handle.store.commit((tx) => tx.setValue("whole", 1)),
          handle.store.accept(event(), [dedupe()]),
        ]);
        expect(results.map((result) => result.status)).toEqual(["fulfilled", "rejected", "rejected", "rejected", "fulfilled", "fulfilled"]);
        expect((results[1] as PromiseRejectedResult).reason).toBeInstanceOf(RouseError);
        expect((results[3] as PromiseRejectedResult).reason).toBe(failure);
        expect(await handle.store.getValue("half")).toBeUndefined();
        expect(await handle.store.getValue("whole")).toBe(1);
        expect(await handle.store.listEvents({})).toHaveLength(2);
        // The key of the one that failed was free for the next.
        expect(results[5]).toMatchObject({ value: { kind: "accepted" } });
      });

      it("that fails leaves no gap that reads wait for", async () => {
        const first = event();
        await handle.store.accept(first);
        await expect(handle.store.accept({ ...event(), id: first.id })).rejects.toMatchObject({ name: "RouseError" });
        expect(await handle.store.listEvents({})).toHaveLength(1);
        const action = runAction();
        await handle.store.accept(event({ actions: [action] }));
        expect(await handle.store.listRuns({})).toMatchObject([{ id: action.runId }]);
      });

      it("changes a run that was accepted just before", async () => {
        const action = runAction();
        await handle.store.accept(event({ actions: [action] }));
        await handle.store.commit((tx) => {
          tx.removeJob("turn", action.runId);
          tx.updateRun(action.runId, { status: "cancelled", endedAt: START });
        });
        expect(await handle.store.getRun(action.runId)).toMatchObject({ status: "cancelled" });
        expect(await handle.queue.fetch("turn", 1)).toEqual([]);
      });

      it("changes what a run's change names; null takes a field away", async () => {
        const record = run({ error: { code: "internal", message: "y" }, endedAt: START });
        await handle.store.commit((tx) => {
          tx.insertRun(record);
          tx.updateRun(record.id, {
            status: "running",
            attempts: 2,
            route: { status: "no_route", reason: "none" },
            error: null,
            endedAt: null,
          });
          tx.updateRun("run_nobody", { status: "failed" });
        });
        const { error: _error, endedAt: _endedAt, ...rest } = record;
        expect(await handle.store.getRun(record.id)).toEqual({
          ...rest,
          status: "running",
          attempts: 2,
          route: { status: "no_route", reason: "none" },
        });
        await handle.store.commit((tx) => tx.updateRun(record.id, { spec: spec("hook:two") }));
        expect(await handle.store.listRuns({ sessionKey: "hook:two" })).toMatchObject([
          { id: record.id, status: "running", spec: spec("hook:two") },
        ]);
      });

      it("records an event whose work is then taken up", async () => {
        const action = runAction();
        const heard: string[] = [];
        handle.queue.onReady((kind) => heard.push(kind));
        await handle.store.accept(event({ actions: [action] }));
        await until(() => heard.length > 0);
        expect(heard).toEqual(["turn"]);
        expect(await handle.queue.fetch("turn", 1)).toMatchObject([{ id: action.runId }]);
      });

      it("keeps values", async () => {
        await handle.store.commit((tx) => {
          tx.setValue("a", { n: 1 });
          tx.setValue("a", { n: 2 });
        });
        await reopen();
        expect(await handle.store.getValue("a")).toEqual({ n: 2 });
        expect(await handle.store.getValue("b")).toBeUndefined();
      });
    });

    describe("sessions", () => {
      it("keep their turns in order, apart by agent and origin", async () => {
        const ref = hookSession("k");
        const others = [hookSession("k", "other"), { agentId: "main", origin: "api" as const, key: "k" }];
        await handle.store.commit((tx) => {
          tx.appendTurn(ref, turn("r1"));
          for (const other of others) tx.appendTurn(other, turn("x"));
          tx.appendTurn(ref, turn("r2", { at: START + HOUR, unsafe: true }));
        });
        await reopen();
        const turns = await handle.store.getTurns(ref);
        expect(turns).toEqual([
          { ...turn("r1"), seq: expect.any(Number) },
          { ...turn("r2", { at: START + HOUR, unsafe: true }), seq: expect.any(Number) },
        ]);
        expect(await handle.store.getSession(ref)).toEqual({ ref, turns: 2, createdAt: START, lastUsedAt: START + HOUR });
        expect(await handle.store.getTurns(others[0] ?? ref)).toHaveLength(1);
        expect(await handle.store.getTurns(hookSession("nobody"))).toEqual([]);
        expect(await handle.store.getSession(hookSession("nobody"))).toBeUndefined();
      });

      it("of hooks are apart by path and credential, and are found by their key", async () => {
        const key = "k/l";
        const via = (path: string, credential: string) => ({ ...hookSession(key), via: { path, credential } });
        const refs = [via("a", "hooks.token"), via("a", "path:a"), via("team/a", "path:team/a"), hookSession(key)];
        for (const [n, ref] of refs.entries()) await handle.store.commit((tx) => tx.appendTurn(ref, turn(`r${n}`, { at: START + n })));
        await handle.store.commit((tx) => {
          tx.appendTurn(hookSession(key, "other"), turn("x"));
          tx.appendTurn({ agentId: "main", origin: "api", key }, turn("x"));
        });
        await reopen();
        for (const [n, ref] of refs.entries()) {
          expect(await handle.store.getTurns(ref)).toMatchObject([{ runId: `r${n}` }]);
          expect(await handle.store.getSession(ref)).toEqual({ ref, turns: 1, createdAt: START + n, lastUsedAt: START + n });
        }
        expect((await handle.store.sessionsWithKey("main", key)).map(({ ref }) => ref)).toEqual(refs.toReversed());
        expect(new Set(refs.map(sessionId)).size).toBe(refs.length);
      });

      it("are emptied by a reset, and gone after a delete", async () => {
        const [ref, other] = [hookSession("a"), hookSession("b")];
        await handle.store.commit((tx) => {
          tx.appendTurn(ref, turn("r1"));
          tx.appendTurn(other, turn("r2"));
          tx.resetSession(ref);
        });
        expect(await handle.store.getTurns(ref)).toEqual([]);
        expect(await handle.store.getSession(ref)).toMatchObject({ turns: 0 });
        await handle.store.commit((tx) => tx.appendTurn(ref, turn("r3")));
        expect((await handle.store.getTurns(ref)).map((one) => one.runId)).toEqual(["r3"]);
        await handle.store.commit((tx) => tx.deleteSession(ref));
        expect(await handle.store.getSession(ref)).toBeUndefined();
        expect(await handle.store.getTurns(ref)).toEqual([]);
        expect(await handle.store.getTurns(other)).toHaveLength(1);
      });
    });

    describe("system events", () => {
      it("wait in order, change state, and count failures", async () => {
        await handle.store.commit((tx) => {
          for (const id of ["s1", "s2", "s3", "s4"]) tx.addSystemEvent(systemEvent(id));
          tx.addSystemEvent(systemEvent("other", { agentId: "other" }));
          tx.addSystemEvent(systemEvent("s1", { source: "again" }));
        });
        expect((await handle.store.queuedSystemEvents("main", 3)).map((one) => one.id)).toEqual(["s1", "s2", "s3"]);
        await handle.store.commit((tx) => {
          tx.setSystemEvents(["s1"], { state: "done" });
          tx.setSystemEvents(["s2", "s3"], { failed: true });
          tx.setSystemEvents(["s3"], { state: "parked", failed: true });
        });
        await reopen();
        expect((await handle.store.queuedSystemEvents("main", 10)).map((one) => [one.id, one.failures])).toEqual([
          ["s2", 1],
          ["s4", 0],
        ]);
        expect(await handle.store.listSystemEvents({ state: "parked" })).toMatchObject([{ id: "s3", failures: 2, state: "parked" }]);
        expect((await handle.store.listSystemEvents({ agentId: "main" })).map((one) => one.id)).toEqual(["s4", "s3", "s2", "s1"]);
      });
    });

    describe("deliveries and routes", () => {
      it("a delivery starts pending and changes; null takes a field away", async () => {
        const given = delivery("d1", { route: { channel: "console", to: "me", thread: "t" } });
        await handle.store.commit((tx) => {
          tx.addDelivery(given);
          tx.enqueue(job("d1", { kind: "delivery" }));
        });
        const pending = { ...given, nextChunk: 0, status: "pending", attempts: 0, messageIds: [], nextAt: START };
        expect(await handle.store.getDelivery("d1")).toEqual(pending);
        await handle.store.commit((tx) => {
          tx.updateDelivery("d1", {
            nextChunk: 1,
            attempts: 1,
            messageIds: ["m"],
            error: { code: "retry", message: "later" },
            nextAt: START + 5,
            endedAt: START,
          });
          tx.updateDelivery("d1", { status: "delivered", error: null });
          tx.updateDelivery("nobody", { attempts: 9 });
        });
        await reopen();
        expect(await handle.store.getDelivery("d1")).toEqual({
          ...pending,
          nextChunk: 1,
          attempts: 1,
          messageIds: ["m"],
          nextAt: START + 5,
          endedAt: START,
          status: "delivered",
        });
        expect(await handle.store.getDelivery("nobody")).toBeUndefined();
      });

      it("one that has no route has failed from the start, is counted by itself, and gets a route, chunks and a channel later", async () => {
        const error = { code: "no_route" as const, message: "name `channel` and `to`" };
        const given = delivery("d1", { route: { channel: "last" }, chunks: ["one two"], error });
        const counted = async (): Promise<number[]> => {
          const counts = await handle.store.counts();
          return ["no_route", "failed", "pending"].map((state) => counts[`deliveries.${state}`] ?? -1);
        };
        await handle.store.commit((tx) => tx.addDelivery(given));
        await reopen();
        const failed = { ...given, nextChunk: 0, status: "failed", attempts: 0, messageIds: [], nextAt: START, endedAt: START };
        expect(await handle.store.getDelivery("d1")).toEqual(failed);
        expect(await counted()).toEqual([1, 0, 0]);
        const route = { channel: "rooms", to: "ops" };
        await handle.store.commit((tx) =>
          tx.updateDelivery("d1", { route, chunks: ["one", "two"], status: "pending", error: null, endedAt: null }),
        );
        await reopen();
        expect(await handle.store.getDelivery("d1")).toMatchObject({ route, chunks: ["one", "two"], status: "pending" });
        expect(await counted()).toEqual([0, 0, 1]);
        expect((await handle.store.listDeliveries({ channel: "rooms" })).map((one) => one.id)).toEqual(["d1"]);
        expect(await handle.store.listDeliveries({ channel: "last" })).toEqual([]);
      });

      it("last routes: one per channel, the newest first", async () => {
        const route = { agentId: "main", channel: "a", to: "1", thread: "t", at: START };
        await handle.store.commit((tx) => {
          tx.setLastRoute(route);
          tx.setLastRoute({ agentId: "main", channel: "b", to: "2", at: START + 1 });
          tx.setLastRoute({ agentId: "other", channel: "a", to: "9", at: START + 2 });
        });
        expect(await handle.store.lastRoutes("main")).toEqual([{ agentId: "main", channel: "b", to: "2", at: START + 1 }, route]);
        await handle.store.commit((tx) => tx.setLastRoute({ agentId: "main", channel: "a", to: "3", at: START + 3 }));
        expect(await handle.store.lastRoutes("main")).toEqual([
          { agentId: "main", channel: "a", to: "3", at: START + 3 },
          { agentId: "main", channel: "b", to: "2", at: START + 1 },
        ]);
      });
    });

    it("counts follow every change", async () => {
      const action = runAction();
      await handle.store.accept(event({ actions: [action, wakeAction()] }));
      await handle.store.accept(event({ outcome: "unmatched" }));
      await handle.store.commit((tx) => {
        tx.insertRun(run({ status: "succeeded", endedAt: START }));
        tx.updateRun(action.runId, { status: "running" });
        tx.addDelivery(delivery("d1"));
        tx.updateDelivery("d1", { status: "failed", endedAt: START });
        tx.appendTurn(hookSession(), turn("r"));
        tx.appendTurn(hookSession(), turn("r2"));
        tx.appendTurn(hookSession("hook:two"), turn("r4"));
        tx.addSystemEvent(systemEvent("s"));
        tx.setSystemEvents(["s"], { state: "parked" });
        tx.enqueue(job("d1", { kind: "delivery" }));
      });
      await reopen();
      const nonZero = Object.fromEntries(Object.entries(await handle.store.counts()).filter(([, count]) => count !== 0));
      expect(nonZero).toEqual({
        "events.accepted": 1,
        "events.unmatched": 1,
        "runs.succeeded": 1,
        "runs.running": 1,
        "deliveries.failed": 1,
        "sessions.hook": 2,
        "systemEvents.queued": 1,
        "systemEvents.parked": 1,
        "jobs.turn": 1,
        "jobs.delivery": 1,
      });
    });

    describe("a backup", () => {
      it("holds all that was on disk, while more comes in", async () => {
        const { copies } = home;
        if (!copies)
          return expect(handle.store.backup("/nowhere")).rejects.toMatchObject({
            code: "usage",
            message: expect.stringContaining("pg_dump"),
          });
        const action = runAction();
        await handle.store.accept(event({ actions: [action] }));
        for (let n = 0; n < 40; n++) await handle.store.commit((tx) => tx.setValue(`v${n}`, "x".repeat(20_000)));
        const file = copies.file("copy");
        let copying = true;
        const done = handle.store.backup(file).finally(() => (copying = false));
        let during = 0;
        while (copying) {
          await handle.store.accept(event());
          during++;
        }
        await done;
        expect(during).toBeGreaterThan(0);
        const copy = await copies.open(file);
        expect(await copy.store.getRun(action.runId)).toMatchObject({ id: action.runId, status: "queued" });
        expect(await copy.store.getValue("v39")).toHaveLength(20_000);
        expect(await copy.queue.fetch("turn", 1)).toMatchObject([{ id: action.runId }]);
        await copy.store.close();
      });

      it("overwrites nothing", async () => {
        const { copies } = home;
        if (!copies) return;
        const file = copies.file("copy");
        await handle.store.backup(file);
        await expect(handle.store.backup(file)).rejects.toMatchObject({ code: "usage" });
        const copy = await copies.open(file);
        await copy.store.close();
      });
    });

    const parts = { home: () => home, store: () => handle.store, queue: () => handle.queue };
    listContract(parts);
    sweepContract(parts);
  });
}
