import { describe, expect, it } from "vitest";
import {
  sessionId,
  type ApiRun,
  type HeartbeatRun,
  type Lists,
  type UsageKey,
} from "../../../src/store/types.ts";
import {
  approval,
  DAY,
  delivery,
  event,
  hookSession,
  HOUR,
  run,
  runAction,
  spec,
  START,
  systemEvent,
  turn,
} from "./make.ts";
import type { Stage } from "./stage.ts";

/** Reads page after page and returns the ids of each. */
async function pages<T>(
  read: (page: { limit: number; before?: string }) => Promise<T[]>,
  idOf: (row: T) => string,
): Promise<string[][]> {
  const found: string[][] = [];
  let before: string | undefined;
  for (let n = 0; n < 20; n++) {
    const rows = await read({ limit: 3, ...(before === undefined ? {} : { before }) });
    if (rows.length === 0) break;
    found.push(rows.map(idOf));
    before = idOf(rows.at(-1) as T);
  }
  return found;
}

/** Lists: newest first, filtered, page by page. */
export function testLists(stage: Stage): void {
  describe("lists", () => {
    it("events: newest first, in pages without gap or repeat, also within one millisecond", async () => {
      const events = Array.from({ length: 8 }, () => event());
      await Promise.all(events.map((one) => stage.store.accept(one)));
      const expected = events.map((one) => one.id).toReversed();
      const read = await pages(
        (page) => stage.store.events.list(page),
        (one) => one.id,
      );
      expect(read).toEqual([expected.slice(0, 3), expected.slice(3, 6), expected.slice(6)]);
      expect(await stage.store.events.list({ before: "evt_nobody" })).toEqual([]);
    });

    it("events: by number, in the order in which they were written, from any of them", async () => {
      const { store } = stage.handle;
      expect(await store.events.getNumber()).toBeUndefined();
      const events = Array.from({ length: 5 }, (_, n) => event({ path: `p${n}` }));
      for (const one of events) await store.accept(one);
      const numbers = await store.events.listNumbers({ after: 0, limit: 10 });
      expect(numbers).toHaveLength(5);
      expect(numbers).toEqual(numbers.toSorted((one, other) => one - other));
      expect(await store.events.getNumber()).toBe(numbers.at(-1));
      expect(await store.events.getNumber(events[1]?.id ?? "")).toBe(numbers[1]);
      expect(await store.events.getNumber("evt_absent")).toBeUndefined();
      expect(await store.events.listNumbers({ after: numbers[1] ?? 0, limit: 2 })).toEqual(
        numbers.slice(2, 4),
      );
      const read = await store.events.listNumbered([numbers[3] ?? 0, numbers[0] ?? 0]);
      expect(read.map(({ number, event: { id } }) => [number, id])).toEqual([
        [numbers[0], events[0]?.id],
        [numbers[3], events[3]?.id],
      ]);
    });

    it("events: by outcome, path, mapping, time and failed runs, and all of them together", async () => {
      stage.clock.advance(HOUR);
      const [bad, good] = [runAction(), runAction()];
      const events = [
        event({ path: "a", mapping: "m1", actions: [bad] }),
        event({ path: "b", mapping: "m1", actions: [good] }),
        event({
          path: "b",
          mapping: "m2",
          outcome: "unmatched",
          receivedAt: START + HOUR,
          failedActions: 1,
        }),
      ];
      for (const one of events) await stage.store.accept(one);
      await stage.store.commit((tx) =>
        tx.runs.update(bad.runId, { status: "timed_out", endedAt: START }),
      );
      const find = async (query: Lists["events"]["of"]): Promise<number[]> =>
        (await stage.store.events.list(query)).map((found) =>
          events.findIndex((one) => one.id === found.id),
        );
      expect(await find({ outcome: "unmatched" })).toEqual([2]);
      expect(await find({ path: "b" })).toEqual([2, 1]);
      expect(await find({ mapping: "m1" })).toEqual([1, 0]);
      expect(await find({ since: START + 1 })).toEqual([2]);
      expect(await find({ since: START })).toEqual([2, 1, 0]);
      expect(await find({ failedRuns: true })).toEqual([0]);
      expect(await find({ partlyFailed: true })).toEqual([2]);
      expect(
        await find({ mapping: "m1", path: "b", outcome: "accepted", since: START, limit: 1 }),
      ).toEqual([1]);
      expect(await find({ failedRuns: true, path: "b" })).toEqual([]);
      const begin = (index: number): string => events[index]?.id.slice(0, -4) ?? "";
      expect(await find({ idPrefix: begin(1) })).toEqual([1]);
      expect(await find({ idPrefix: begin(1), path: "a" })).toEqual([]);
      expect(await find({ idPrefix: `evt_%${begin(1).slice(5)}` })).toEqual([]);
    });

    it("lists and sums read records with U+0000 and halves of surrogate pairs, as senders write them", async () => {
      const { store } = stage.handle;
      const odd = 'a\0b \ud83d \udc4d "\\u0000" \\ud83d';
      const failed = run({
        status: "failed",
        endedAt: START + 1,
        mapping: "m",
        collect: { key: odd, count: 1, firstAt: START, closesAt: START },
        spec: { ...spec(), input: [{ text: odd, outside: true }], name: odd },
        error: { code: "provider_error", message: odd },
        usage: { inputTokens: 7, outputTokens: 1 },
      });
      const queued = run({ status: "queued", createdAt: START + 5, warnings: [odd] });
      const asked = approval(failed.id, { input: { note: odd } });
      await store.commit((tx) => {
        tx.runs.add(failed);
        tx.runs.add(queued);
        tx.approvals.add(asked);
      });
      await store.accept(event({ outcome: "rejected", reason: odd, actions: [] }));
      expect((await store.runs.list({ kinds: ["hook"] })).map(({ id }) => id)).toEqual([
        queued.id,
        failed.id,
      ]);
      expect(await store.approvals.list({ agents: ["main"] })).toEqual([asked]);
      for (const [by, key] of [
        ["mapping", "m"],
        ["agent", "main"],
      ] as const)
        expect(await store.runs.sumUsage({ by, since: START })).toMatchObject([
          { key, inputTokens: 7 },
        ]);
      expect(await store.runs.getQueuedSince()).toBe(START + 5);
      expect(await store.failures.sum({ since: START, limit: 9 })).toMatchObject([
        { kind: "event" },
        { kind: "run", code: "provider_error" },
      ]);
    });

    it("usage: added up by mapping, agent, model and day, of runs that have ended since", async () => {
      const usage = {
        inputTokens: 100,
        outputTokens: 10,
        cachedInputTokens: 40,
        cacheWriteTokens: 20,
        costUsd: 0.1,
      };
      const ended = { status: "succeeded" as const, endedAt: START + 1, model: "a/big" };
      stage.clock.advance(DAY);
      await stage.store.commit((tx) => {
        tx.runs.add(run({ ...ended, mapping: "m1", usage }));
        tx.runs.add(run({ ...ended, mapping: "m1", usage: { ...usage, costUsd: 0.2 } }));
        tx.runs.add(run({ ...ended, mapping: "m2", model: "a/free", usage: { outputTokens: 3 } }));
        tx.runs.add(
          run<ApiRun>({
            ...ended,
            kind: "api",
            endedAt: START + DAY,
            spec: { ...spec(), session: { agentId: "ops", origin: "api", key: "k" } },
          }),
        );
        tx.runs.add(run({ mapping: "m1" }));
        tx.runs.add(run({ ...ended, mapping: "m1", createdAt: START - DAY, usage }));
      });
      const sum = async (by: UsageKey, since = START): Promise<object> =>
        Object.fromEntries(
          (await stage.store.runs.sumUsage({ by, since })).map(({ key, ...rest }) => [key, rest]),
        );
      const none = {
        inputTokens: 0,
        cachedInputTokens: 0,
        cacheWriteTokens: 0,
        outputTokens: 0,
        costUsd: null,
        unpricedRuns: 0,
      };
      const two = {
        runs: 2,
        inputTokens: 200,
        cachedInputTokens: 80,
        cacheWriteTokens: 40,
        outputTokens: 20,
        costUsd: 0.3,
        unpricedRuns: 0,
      };
      const free = { ...none, runs: 1, outputTokens: 3, unpricedRuns: 1 };
      expect(await sum("mapping")).toEqual({ m1: two, m2: free, "(api)": { ...none, runs: 1 } });
      expect(await sum("model")).toEqual({ "a/big": { ...two, runs: 3 }, "a/free": free });
      expect(await sum("agent")).toMatchObject({
        main: { runs: 3, costUsd: 0.3, unpricedRuns: 1 },
        ops: { runs: 1 },
      });
      const day = (at: number): string => new Date(at).toISOString().slice(0, 10);
      expect(await sum("day")).toMatchObject({
        [day(START)]: { runs: 3 },
        [day(START + DAY)]: { runs: 1 },
      });
      expect(await sum("mapping", START - DAY)).toMatchObject({ m1: { runs: 3, costUsd: 0.4 } });
      expect(await sum("day", START + HOUR)).toEqual({});
    });

    it("find the one among thousands that a filter means", async () => {
      const wanted = event({ path: "rare" });
      await stage.store.accept(wanted);
      await Promise.all(Array.from({ length: 4500 }, () => stage.store.accept(event())));
      expect((await stage.store.events.list({ path: "rare" })).map((one) => one.id)).toEqual([
        wanted.id,
      ]);
      expect(await stage.store.events.list({ limit: 1000 })).toHaveLength(1000);
      expect(await stage.store.events.list({})).toHaveLength(50);
    });

    it("runs: by the time of their end, the one that ended last first, in pages", async () => {
      stage.clock.advance(HOUR);
      const ends = [START + 40, START + 10, undefined, START + 30, START + 30, START + 20];
      const runs = ends.map((endedAt, n) =>
        run({
          status: endedAt === undefined ? "queued" : n === 3 ? "failed" : "succeeded",
          createdAt: START + n,
          ...(endedAt && { endedAt }),
        }),
      );
      await stage.store.commit((tx) => {
        for (const one of runs) tx.runs.add(one);
      });
      const find = async (query: object): Promise<number[]> =>
        (await stage.store.runs.list(query)).map(({ id }) =>
          runs.findIndex((one) => one.id === id),
        );
      expect(await find({ endedSince: START })).toEqual([0, 4, 3, 5, 1]);
      expect(await find({ endedSince: START + 20, endedUntil: START + 40 })).toEqual([4, 3, 5]);
      expect(await find({ endedUntil: START + 30 })).toEqual([5, 1]);
      expect(await find({ endedSince: START + 20, endedUntil: START + 40, limit: 1 })).toEqual([4]);
      expect(
        await find({
          endedSince: START + 20,
          endedUntil: START + 40,
          limit: 2,
          before: runs[4]?.id,
        }),
      ).toEqual([3, 5]);
      expect(await find({ endedSince: START, status: "failed" })).toEqual([3]);
      // The one that ended last was made first: that it is older says nothing about the runs after it.
      expect(await find({ endedSince: START, since: START + 4 })).toEqual([4, 5]);
      await stage.store.commit((tx) =>
        tx.runs.update(runs[2]?.id ?? "", { status: "failed", endedAt: START + 35 }),
      );
      expect(await find({ endedSince: START + 30 })).toEqual([0, 2, 4, 3]);
    });

    it("runs: by status, session, event and kind", async () => {
      stage.clock.advance(HOUR);
      const runs = [
        run({ eventId: "evt_1", spec: spec("hook:a") }),
        run<HeartbeatRun>({
          eventId: "evt_1",
          kind: "heartbeat",
          status: "failed",
          endedAt: START,
        }),
        run({ eventId: "evt_2", spec: spec("hook:a"), createdAt: START + HOUR }),
        ...Array.from({ length: 4 }, () => run({ status: "succeeded" })),
      ];
      await stage.store.commit((tx) => {
        for (const one of runs) tx.runs.add(one);
      });
      const find = async (query: Lists["runs"]["of"]): Promise<number[]> =>
        (await stage.store.runs.list(query)).map((found) =>
          runs.findIndex((one) => one.id === found.id),
        );
      expect(await find({ status: "failed" })).toEqual([1]);
      expect(await find({ sessionKey: "hook:a" })).toEqual([2, 0]);
      expect(await find({ eventId: "evt_1" })).toEqual([1, 0]);
      expect(await find({ since: START + HOUR })).toEqual([2]);
      expect(await find({ kinds: ["heartbeat"] })).toEqual([1]);
      expect(await find({ kinds: ["hook", "api"], since: START, eventId: "evt_1" })).toEqual([0]);
      expect(await find({ kinds: ["hook", "heartbeat"], limit: 3 })).toEqual([6, 5, 4]);
      expect(await find({ status: "queued", sessionKey: "hook:a", eventId: "evt_2" })).toEqual([2]);
      const read = await pages(
        (page) => stage.store.runs.list(page),
        (one) => one.id,
      );
      expect(read.flat()).toEqual(runs.map((one) => one.id).toReversed());
    });

    it("deliveries: by status and channel", async () => {
      await stage.store.commit((tx) => {
        for (let n = 0; n < 5; n++)
          tx.deliveries.add(
            delivery(`d${n}`, {
              route: { channel: n % 2 === 0 ? "even" : "odd", to: "x" },
              createdAt: START + n,
            }),
          );
        tx.deliveries.update("d2", { status: "failed" });
        tx.deliveries.update("d3", {
          status: "failed",
          error: { code: "no_route", message: "none" },
        });
      });
      const find = async (query: Lists["deliveries"]["of"]): Promise<string[]> =>
        (await stage.store.deliveries.list(query)).map((one) => one.id);
      expect(await find({ channel: "even" })).toEqual(["d4", "d2", "d0"]);
      expect(await find({ status: "failed" })).toEqual(["d3", "d2"]);
      expect(await find({ status: "no_route" })).toEqual(["d3"]);
      expect(await find({ channel: "even", status: "pending" })).toEqual(["d4", "d0"]);
      expect(await find({ since: START + 3 })).toEqual(["d4", "d3"]);
      const read = await pages(
        (page) => stage.store.deliveries.list(page),
        (one) => one.id,
      );
      expect(read).toEqual([
        ["d4", "d3", "d2"],
        ["d1", "d0"],
      ]);
    });

    it("system events: in pages", async () => {
      await stage.store.commit((tx) => {
        for (let n = 0; n < 5; n++) tx.systemEvents.add(systemEvent(`s${n}`));
      });
      const read = await pages(
        (page) => stage.store.systemEvents.list(page),
        (one) => one.id,
      );
      expect(read).toEqual([
        ["s4", "s3", "s2"],
        ["s1", "s0"],
      ]);
    });

    it("sessions: the last used first, by origin and agent", async () => {
      const refs = [
        hookSession("a"),
        hookSession("b", "other"),
        { agentId: "main", origin: "api" as const, key: "c" },
        hookSession("d"),
      ];
      await stage.store.commit((tx) => {
        for (const [n, ref] of refs.entries())
          tx.sessions.addTurn(ref, turn("r", { at: START + n }));
        tx.sessions.addTurn(hookSession("a"), turn("r", { at: START + 10 }));
      });
      const find = async (query: Lists["sessions"]["of"]): Promise<string[]> =>
        (await stage.store.sessions.list(query)).map((one) => one.ref.key);
      expect(await find({})).toEqual(["a", "d", "c", "b"]);
      expect(await find({ origin: "hook" })).toEqual(["a", "d", "b"]);
      expect(await find({ agentId: "other" })).toEqual(["b"]);
      expect(await find({ since: START + 3 })).toEqual(["a", "d"]);
      expect(await find({ limit: 2 })).toEqual(["a", "d"]);
      const read = await pages(
        (page) => stage.store.sessions.list(page),
        (one) => sessionId(one.ref),
      );
      expect(read).toEqual([["main/hook/a", "main/hook/d", "main/api/c"], ["other/hook/b"]]);
    });
  });
}
