import { describe, expect, it } from "vitest";
import { RouseError } from "../../../src/core/errors.ts";
import { RUN_CHANGED } from "../../../src/store/sql/errors.ts";
import type { ExpectedRun, MessageRun } from "../../../src/store/types.ts";
import { dedupe, event, messageSpec, run, runAction, spec, START } from "./make.ts";
import type { Stage } from "./stage.ts";

/** Commits: all of one, or nothing of it; and copies of a store in use. */
export function testCommits(stage: Stage): void {
  describe("a commit", () => {
    it("harms no other of its group when it fails", async () => {
      const first = event();
      const failure = new Error("of the caller");
      const results = await Promise.allSettled([
        stage.store.accept(first),
        stage.store.accept({ ...event(), id: first.id }),
        stage.store.accept({ ...event(), id: first.id }, [dedupe()]),
        stage.store.commit((tx) => {
          tx.values.set("half", 1);
          throw failure;
        }),
        stage.store.commit((tx) => tx.values.set("whole", 1)),
        stage.store.accept(event(), [dedupe()]),
      ]);
      expect(results.map((result) => result.status)).toEqual([
        "fulfilled",
        "rejected",
        "rejected",
        "rejected",
        "fulfilled",
        "fulfilled",
      ]);
      expect((results[1] as PromiseRejectedResult).reason).toBeInstanceOf(RouseError);
      expect((results[3] as PromiseRejectedResult).reason).toBe(failure);
      expect(await stage.store.values.get("half")).toBeUndefined();
      expect(await stage.store.values.get("whole")).toBe(1);
      expect(await stage.store.events.list({})).toHaveLength(2);
      // The key of the one that failed was free for the next.
      expect(results[5]).toMatchObject({ value: { kind: "accepted" } });
    });

    it("that fails leaves no gap that reads wait for", async () => {
      const first = event();
      await stage.store.accept(first);
      await expect(stage.store.accept({ ...event(), id: first.id })).rejects.toMatchObject({
        name: "RouseError",
      });
      expect(await stage.store.events.list({})).toHaveLength(1);
      const action = runAction();
      await stage.store.accept(event({ actions: [action] }));
      expect(await stage.store.runs.list({})).toMatchObject([{ id: action.runId }]);
    });

    it("changes a run that was accepted just before", async () => {
      const action = runAction();
      await stage.store.accept(event({ actions: [action] }));
      await stage.store.commit((tx) => {
        tx.jobs.delete("turn", action.runId);
        tx.runs.update(action.runId, { status: "cancelled", endedAt: START });
      });
      expect(await stage.store.runs.get(action.runId)).toMatchObject({
        status: "cancelled",
      });
      expect(await stage.queue.fetch("turn", 1)).toEqual([]);
    });

    it("changes a run only as it was read, if it says how; else nothing of it is written", async () => {
      const message = { kind: "channel" as const, spec: messageSpec("hook:one") };
      const [first, second] = [run<MessageRun>(message), run()];
      const { store } = stage.handle;
      await store.commit((tx) => [first, second].forEach((one) => tx.runs.add(one)));
      const change = (id: string, expected: ExpectedRun) =>
        store.commit((tx) => {
          tx.runs.update(second.id, { reply: "written" });
          tx.runs.update(id, { edits: 1 }, expected);
        });
      const asRead = { status: "queued" as const, attempts: 0, edits: 0 };
      for (const other of [
        { ...asRead, status: "parked" as const },
        { ...asRead, attempts: 1 },
        { ...asRead, edits: 1 },
      ])
        await expect(change(first.id, other)).rejects.toMatchObject({
          name: "RouseError",
          message: RUN_CHANGED.message,
        });
      await expect(change("run_nobody", asRead)).rejects.toMatchObject({
        message: RUN_CHANGED.message,
      });
      expect((await store.runs.get(second.id))?.reply).toBeUndefined();
      // Of two at the same time, one is made.
      const both = await Promise.allSettled([change(first.id, asRead), change(first.id, asRead)]);
      expect(both.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
      expect(await store.runs.get(first.id)).toMatchObject({ edits: 1 });
      await expect(change(first.id, asRead)).rejects.toMatchObject({
        message: RUN_CHANGED.message,
      });
      await change(first.id, { edits: 1 });
    });

    it("changes what a run's change names; null takes a field away", async () => {
      const record = run({ error: { code: "internal", message: "y" }, endedAt: START });
      await stage.store.commit((tx) => {
        tx.runs.add(record);
        tx.runs.update(record.id, {
          status: "running",
          attempts: 2,
          route: { status: "no_route", reason: "none" },
          error: null,
          endedAt: null,
        });
        tx.runs.update("run_nobody", { status: "failed" });
      });
      const { error: _error, endedAt: _endedAt, ...rest } = record;
      expect(await stage.store.runs.get(record.id)).toEqual({
        ...rest,
        status: "running",
        attempts: 2,
        route: { status: "no_route", reason: "none" },
      });
      await stage.store.commit((tx) => tx.runs.update(record.id, { spec: spec("hook:two") }));
      expect(await stage.store.runs.list({ sessionKey: "hook:two" })).toMatchObject([
        { id: record.id, status: "running", spec: spec("hook:two") },
      ]);
    });

    it("keeps values", async () => {
      await stage.store.commit((tx) => {
        tx.values.set("a", { n: 1 });
        tx.values.set("a", { n: 2 });
      });
      await stage.reopen();
      expect(await stage.store.values.get("a")).toEqual({ n: 2 });
      expect(await stage.store.values.get("b")).toBeUndefined();
    });
  });

  describe("a backup", () => {
    it("holds all that was on disk, while more comes in", async () => {
      const { copies } = stage.home;
      if (!copies)
        return expect(stage.store.backup("/nowhere")).rejects.toMatchObject({
          code: "usage",
          message: expect.stringMatching(/\S/) as unknown,
        });
      const action = runAction();
      await stage.store.accept(event({ actions: [action] }));
      for (let n = 0; n < 40; n++)
        await stage.store.commit((tx) => tx.values.set(`v${n}`, "x".repeat(20_000)));
      const file = copies.file("copy");
      let copying = true;
      const done = stage.store.backup(file).finally(() => (copying = false));
      let during = 0;
      while (copying) {
        await stage.store.accept(event());
        during++;
      }
      await done;
      expect(during).toBeGreaterThan(0);
      const copy = await copies.open(file);
      expect(await copy.store.runs.get(action.runId)).toMatchObject({
        id: action.runId,
        status: "queued",
      });
      expect(await copy.store.values.get("v39")).toHaveLength(20_000);
      expect(await copy.queue.fetch("turn", 1)).toMatchObject([{ id: action.runId }]);
      await copy.store.close();
    });

    it("overwrites nothing", async () => {
      const { copies } = stage.home;
      if (!copies) return;
      const file = copies.file("copy");
      await stage.store.backup(file);
      await expect(stage.store.backup(file)).rejects.toMatchObject({ code: "usage" });
      const copy = await copies.open(file);
      await copy.store.close();
    });
  });
}
