import { describe, expect, it } from "vitest";
import { sessionId } from "../../../src/store/types.ts";
import {
  buildCheckpoint,
  delivery,
  event,
  hookSession,
  HOUR,
  job,
  MAIN_SESSION,
  run,
  runAction,
  START,
  systemEvent,
  turn,
  wakeAction,
} from "./make.ts";
import type { Stage } from "./stage.ts";

const toBytes = ({ body }: { body?: Uint8Array | null } = {}): Uint8Array =>
  body ?? new Uint8Array();

/** Sessions, system events, deliveries, routes and counts. */
export function testRecords(stage: Stage): void {
  it("an event takes a note of what was done about it, and keeps the rest", async () => {
    const [failed, other] = [
      event({ id: "e1", outcome: "failed", reason: "it was broken" }),
      event({ id: "e2" }),
    ];
    for (const one of [failed, other]) await stage.store.accept(one);
    const handled = { at: START + 1, as: "discarded", reason: "not needed" } as const;
    await stage.store.commit((tx) => {
      tx.events.update("e1", { handled });
      tx.events.update("none", { handled });
    });
    await stage.reopen();
    const { store } = stage.handle;
    const { request: sent, ...kept } = failed;
    const read = await store.events.get("e1");
    expect(read).toEqual({
      ...kept,
      handled,
      request: { ...sent, body: expect.anything() as Uint8Array },
    });
    expect(Buffer.compare(toBytes(read?.request), toBytes(sent))).toBe(0);
    expect((await store.events.get(other.id))?.handled).toBeUndefined();
    expect(
      (await store.events.list({ outcome: "failed", limit: 5 })).map(({ handled: note }) => note),
    ).toEqual([handled]);
  });

  describe("sessions", () => {
    it("keep their turns in order, apart by agent and origin", async () => {
      stage.clock.advance(HOUR);
      const ref = hookSession("k");
      const others = [
        hookSession("k", "other"),
        { agentId: "main", origin: "api" as const, key: "k" },
      ];
      await stage.store.commit((tx) => {
        tx.sessions.addTurn(ref, turn("r1"));
        for (const other of others) tx.sessions.addTurn(other, turn("x"));
        tx.sessions.addTurn(ref, turn("r2", { at: START + HOUR, unsafe: true }));
      });
      await stage.reopen();
      const turns = await stage.store.sessions.listTurns(ref);
      expect(turns).toEqual([
        { ...turn("r1"), seq: expect.any(Number) },
        { ...turn("r2", { at: START + HOUR, unsafe: true }), seq: expect.any(Number) },
      ]);
      expect(await stage.store.sessions.get(ref)).toEqual({
        ref,
        turns: 2,
        createdAt: START,
        lastUsedAt: START + HOUR,
      });
      expect(await stage.store.sessions.listTurns(others[0] ?? ref)).toHaveLength(1);
      expect(await stage.store.sessions.listTurns(hookSession("nobody"))).toEqual([]);
      expect(await stage.store.sessions.get(hookSession("nobody"))).toBeUndefined();
    });

    it("of hooks are apart by path and credential, and are found by their key", async () => {
      const key = "k/l";
      const via = (path: string, credential: string) => ({
        ...hookSession(key),
        via: { path, credential },
      });
      const refs = [
        via("a", "hooks.token"),
        via("a", "path:a"),
        via("team/a", "path:team/a"),
        hookSession(key),
      ];
      for (const [n, ref] of refs.entries())
        await stage.store.commit((tx) =>
          tx.sessions.addTurn(ref, turn(`r${n}`, { at: START + n })),
        );
      await stage.store.commit((tx) => {
        tx.sessions.addTurn(hookSession(key, "other"), turn("x"));
        tx.sessions.addTurn({ agentId: "main", origin: "api", key }, turn("x"));
      });
      await stage.reopen();
      for (const [n, ref] of refs.entries()) {
        expect(await stage.store.sessions.listTurns(ref)).toMatchObject([{ runId: `r${n}` }]);
        expect(await stage.store.sessions.get(ref)).toEqual({
          ref,
          turns: 1,
          createdAt: START + n,
          lastUsedAt: START + n,
        });
      }
      expect(
        (await stage.store.sessions.listOfHooks({ agentId: "main", key })).map(({ ref }) => ref),
      ).toEqual(refs.toReversed());
      expect(new Set(refs.map(sessionId)).size).toBe(refs.length);
    });

    it("are read from their end, page by page, and their newest checkpoint is found", async () => {
      const [ref, other] = [MAIN_SESSION, { ...MAIN_SESSION, agentId: "other" }];
      await stage.store.commit((tx) => {
        for (let n = 1; n <= 9; n++) tx.sessions.addTurn(ref, turn(`r${n}`));
        tx.sessions.addTurn(other, turn("x", { checkpoint: buildCheckpoint(1) }));
      });
      const { sessions } = stage.store;
      const page = async (of: { limit?: number; before?: number; after?: number }) =>
        (await sessions.listTurns({ ...ref, ...of })).map(({ runId }) => runId);
      const seqs = (await sessions.listTurns(ref)).map(({ seq }) => seq);
      expect(await page({ limit: 3 })).toEqual(["r7", "r8", "r9"]);
      expect(await page({ limit: 3, before: seqs[6] as number })).toEqual(["r4", "r5", "r6"]);
      expect(await page({ limit: 3, before: seqs[6] as number, after: seqs[4] as number })).toEqual(
        ["r6"],
      );
      expect(await page({ after: seqs[6] as number })).toEqual(["r8", "r9"]);
      expect(await sessions.getCheckpoint(ref)).toBeUndefined();
      for (const n of [2, 5]) {
        const made = turn(`c${n}`, { checkpoint: buildCheckpoint(seqs[n] as number) });
        await stage.store.commit((tx) => tx.sessions.addTurn(ref, made));
      }
      await stage.reopen();
      expect(await stage.store.sessions.getCheckpoint(ref)).toMatchObject({
        runId: "c5",
        checkpoint: buildCheckpoint(seqs[5] as number),
      });
      await stage.store.commit((tx) => tx.sessions.clear(ref));
      expect(await stage.store.sessions.getCheckpoint(ref)).toBeUndefined();
      expect(await stage.store.sessions.getCheckpoint(other)).toMatchObject({ runId: "x" });
    });

    it("are emptied by a reset, and gone after a delete", async () => {
      const [ref, other] = [hookSession("a"), hookSession("b")];
      await stage.store.commit((tx) => {
        tx.sessions.addTurn(ref, turn("r1"));
        tx.sessions.addTurn(other, turn("r2"));
        tx.sessions.clear(ref);
      });
      expect(await stage.store.sessions.listTurns(ref)).toEqual([]);
      expect(await stage.store.sessions.get(ref)).toMatchObject({ turns: 0 });
      await stage.store.commit((tx) => tx.sessions.addTurn(ref, turn("r3")));
      expect((await stage.store.sessions.listTurns(ref)).map((one) => one.runId)).toEqual(["r3"]);
      await stage.store.commit((tx) => tx.sessions.delete(ref));
      expect(await stage.store.sessions.get(ref)).toBeUndefined();
      expect(await stage.store.sessions.listTurns(ref)).toEqual([]);
      expect(await stage.store.sessions.listTurns(other)).toHaveLength(1);
    });
  });

  describe("system events", () => {
    it("wait in order, change state, and count failures", async () => {
      await stage.store.commit((tx) => {
        for (const id of ["s1", "s2", "s3", "s4"]) tx.systemEvents.add(systemEvent(id));
        tx.systemEvents.add(systemEvent("other", { agentId: "other" }));
        tx.systemEvents.add(systemEvent("s1", { source: "again" }));
      });
      expect(
        (await stage.store.systemEvents.listQueued({ agentId: "main", limit: 3 })).map(
          (one) => one.id,
        ),
      ).toEqual(["s1", "s2", "s3"]);
      await stage.store.commit((tx) => {
        tx.systemEvents.update(["s1"], { state: "done" });
        tx.systemEvents.update(["s2", "s3"], { failed: true });
        tx.systemEvents.update(["s3"], { state: "parked", failed: true });
      });
      await stage.reopen();
      expect(
        (await stage.store.systemEvents.listQueued({ agentId: "main", limit: 10 })).map((one) => [
          one.id,
          one.failures,
        ]),
      ).toEqual([
        ["s2", 1],
        ["s4", 0],
      ]);
      expect(await stage.store.systemEvents.list({ state: "parked" })).toMatchObject([
        { id: "s3", failures: 2, state: "parked" },
      ]);
      expect(
        (await stage.store.systemEvents.list({ agentId: "main" })).map((one) => one.id),
      ).toEqual(["s4", "s3", "s2", "s1"]);
    });
  });

  describe("deliveries and routes", () => {
    it("a delivery starts pending and changes; null takes a field away", async () => {
      const given = delivery("d1", { route: { channel: "console", to: "me", thread: "t" } });
      await stage.store.commit((tx) => {
        tx.deliveries.add(given);
        tx.jobs.add(job("d1", { kind: "delivery" }));
      });
      const pending = {
        ...given,
        nextChunk: 0,
        status: "pending",
        attempts: 0,
        messageIds: [],
        nextAt: START,
      };
      expect(await stage.store.deliveries.get("d1")).toEqual(pending);
      await stage.store.commit((tx) => {
        tx.deliveries.update("d1", {
          nextChunk: 1,
          attempts: 1,
          messageIds: ["m"],
          error: { code: "retry", message: "later" },
          nextAt: START + 5,
          endedAt: START,
        });
        tx.deliveries.update("d1", { status: "delivered", error: null });
        tx.deliveries.update("nobody", { attempts: 9 });
      });
      await stage.reopen();
      expect(await stage.store.deliveries.get("d1")).toEqual({
        ...pending,
        nextChunk: 1,
        attempts: 1,
        messageIds: ["m"],
        nextAt: START + 5,
        endedAt: START,
        status: "delivered",
      });
      expect(await stage.store.deliveries.get("nobody")).toBeUndefined();
    });

    it("one that has no route has failed from the start, is counted by itself, and gets a route, chunks and a channel later", async () => {
      const error = { code: "no_route" as const, message: "name `channel` and `to`" };
      const given = delivery("d1", { route: { channel: "last" }, chunks: ["one two"], error });
      const counted = async (): Promise<number[]> => {
        const counts = await stage.store.counts();
        return ["no_route", "failed", "pending"].map(
          (state) => counts[`deliveries.${state}`] ?? -1,
        );
      };
      await stage.store.commit((tx) => tx.deliveries.add(given));
      await stage.reopen();
      const failed = {
        ...given,
        nextChunk: 0,
        status: "failed",
        attempts: 0,
        messageIds: [],
        nextAt: START,
        endedAt: START,
      };
      expect(await stage.store.deliveries.get("d1")).toEqual(failed);
      expect(await counted()).toEqual([1, 0, 0]);
      const route = { channel: "rooms", to: "ops" };
      await stage.store.commit((tx) =>
        tx.deliveries.update("d1", {
          route,
          chunks: ["one", "two"],
          status: "pending",
          error: null,
          endedAt: null,
        }),
      );
      await stage.reopen();
      expect(await stage.store.deliveries.get("d1")).toMatchObject({
        route,
        chunks: ["one", "two"],
        status: "pending",
      });
      expect(await counted()).toEqual([0, 0, 1]);
      expect(
        (await stage.store.deliveries.list({ channel: "rooms" })).map((one) => one.id),
      ).toEqual(["d1"]);
      expect(await stage.store.deliveries.list({ channel: "last" })).toEqual([]);
    });

    it("last routes: one per channel, the newest first", async () => {
      const route = { agentId: "main", channel: "a", to: "1", thread: "t", at: START };
      await stage.store.commit((tx) => {
        tx.sessions.setLastRoute(route);
        tx.sessions.setLastRoute({ agentId: "main", channel: "b", to: "2", at: START + 1 });
        tx.sessions.setLastRoute({ agentId: "other", channel: "a", to: "9", at: START + 2 });
      });
      expect(await stage.store.sessions.listLastRoutes("main")).toEqual([
        { agentId: "main", channel: "b", to: "2", at: START + 1 },
        route,
      ]);
      await stage.store.commit((tx) =>
        tx.sessions.setLastRoute({ agentId: "main", channel: "a", to: "3", at: START + 3 }),
      );
      expect(await stage.store.sessions.listLastRoutes("main")).toEqual([
        { agentId: "main", channel: "a", to: "3", at: START + 3 },
        { agentId: "main", channel: "b", to: "2", at: START + 1 },
      ]);
    });
  });

  it("counts follow every change", async () => {
    const action = runAction();
    await stage.store.accept(event({ actions: [action, wakeAction()] }));
    await stage.store.accept(event({ outcome: "unmatched" }));
    await stage.store.commit((tx) => {
      tx.runs.add(run({ status: "succeeded", endedAt: START }));
      tx.runs.update(action.runId, { status: "running" });
      tx.deliveries.add(delivery("d1"));
      tx.deliveries.update("d1", { status: "failed", endedAt: START });
      tx.sessions.addTurn(hookSession(), turn("r"));
      tx.sessions.addTurn(hookSession(), turn("r2"));
      tx.sessions.addTurn(hookSession("hook:two"), turn("r4"));
      tx.systemEvents.add(systemEvent("s"));
      tx.systemEvents.update(["s"], { state: "parked" });
      tx.jobs.add(job("d1", { kind: "delivery" }));
    });
    await stage.reopen();
    const nonZero = Object.fromEntries(
      Object.entries(await stage.store.counts()).filter(([, count]) => count !== 0),
    );
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
}
