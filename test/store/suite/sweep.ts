import { describe, expect, it } from "vitest";
import { SWEEP_SLICE } from "../../../src/store/sql/sweep.ts";
import type { EventRecord, Job, RunAction, SessionRef } from "../../../src/store/types.ts";
import {
  buildCheckpoint,
  DAY,
  dedupe,
  delivery,
  event,
  hookSession,
  KEEP,
  MAIN_SESSION,
  run,
  runAction,
  START,
  systemEvent,
  turn,
  wakeAction,
} from "./make.ts";
import type { Stage } from "./stage.ts";

/** Retention: what goes, and what stays. */
export function testSweep(stage: Stage): void {
  const accepted = async (
    change: Partial<EventRecord> = {},
  ): Promise<{ event: EventRecord; action: RunAction }> => {
    const action = runAction();
    const given = event({ actions: [action], ...change });
    await stage.store.accept(given);
    return { event: given, action };
  };
  const hasBody = async (one: EventRecord): Promise<boolean> =>
    (await stage.store.events.get(one.id))?.request.body !== null;
  const end = (action: RunAction, endedAt = START): Promise<boolean> =>
    stage.store.commit((tx) => tx.runs.update(action.runId, { status: "succeeded", endedAt }));

  describe("sweep", () => {
    it("takes a body away when its time is over, and keeps the rest of the request and the work", async () => {
      stage.clock.advance(DAY);
      const old = await accepted();
      const young = await accepted({ receivedAt: START + DAY });
      await end(old.action);
      await end(young.action);
      expect(await stage.store.sweep(START + 3 * DAY - 1, KEEP)).toBe(0);
      expect(await stage.store.sweep(START + 3 * DAY, KEEP)).toBe(1);
      expect([await hasBody(old.event), await hasBody(young.event)]).toEqual([false, true]);
      const kept = await stage.store.events.get(old.event.id);
      expect(kept).toEqual({ ...old.event, request: { ...old.event.request, body: null } });
      expect(await stage.store.sweep(START + 4 * DAY, KEEP)).toBe(1);
      expect(await hasBody(young.event)).toBe(false);
    });

    it("takes what the mappings' code said away with the body, and nothing else of the event", async () => {
      const said = "outside-words-0815";
      const notes = [
        { mapping: "m", field: "transform.module", error: { message: said, frames: ["a.ts:1:2"] } },
        {
          mapping: "m",
          field: "transform.module",
          console: [{ stream: "stdout" as const, text: `\u0000 \ud800 "${said}` }],
          cut: true as const,
        },
      ];
      const would = [runAction()];
      for (const [bodies, after] of [
        [3 * DAY, START + 3 * DAY],
        [0, START],
      ] as const) {
        const given = event({ outcome: "failed", would, debug: { notes, cut: true } });
        await stage.store.accept(given);
        expect((await stage.store.events.get(given.id))?.debug).toEqual(given.debug);
        await stage.store.sweep(after, { ...KEEP, bodies });
        const kept = await stage.store.events.get(given.id);
        expect([kept?.request.body, kept?.debug]).toEqual([null, undefined]);
        expect(kept?.would).toHaveLength(1);
        expect(JSON.stringify(kept)).not.toContain(said);
      }
    });

    it("with bodies 0 takes them when the work is done, also of an event that came later", async () => {
      const [first, second] = [await accepted(), await accepted()];
      const none = event({ outcome: "unmatched" });
      await stage.store.accept(none);
      await end(second.action);
      const now = { ...KEEP, bodies: 0 };
      // Two bodies, and the input of the run that is done.
      expect(await stage.store.sweep(START, now)).toBe(3);
      expect([
        await hasBody(first.event),
        await hasBody(second.event),
        await hasBody(none),
      ]).toEqual([true, false, false]);
      await end(first.action);
      expect(await stage.store.sweep(START, now)).toBe(2);
      expect(await hasBody(first.event)).toBe(false);
    });

    it("with bodies 0 takes away what the hook said wherever it stands, once it has been used up, and keeps the operator's words", async () => {
      const secret = "outside-words-4711";
      const parts = [
        { text: "Summarise: ", outside: false },
        { text: secret, outside: true },
      ];
      const run = runAction();
      run.spec = {
        ...run.spec,
        input: parts,
        debug: { notes: [{ mapping: "m", field: "f", error: { message: secret } }] },
      };
      const failed = runAction();
      failed.spec = { ...failed.spec, input: parts };
      const wake = { ...wakeAction(), text: parts };
      const given = event({
        actions: [run, failed, wake],
        request: { method: "GET", headers: {}, query: { q: secret }, body: new Uint8Array() },
      });
      await stage.store.accept(given);
      const now = { ...KEEP, bodies: 0 };
      await stage.store.sweep(START, now);
      expect(JSON.stringify(await stage.store.events.get(given.id))).toContain(secret);
      await end(run);
      await stage.store.commit((tx) =>
        tx.runs.update(failed.runId, { status: "failed", endedAt: START }),
      );
      await stage.store.sweep(START, now);
      const kept = [
        { text: "Summarise: ", outside: false },
        { text: "[no longer kept]", outside: true },
      ];
      expect(JSON.stringify(await stage.store.events.get(given.id))).not.toContain(secret);
      const swept = (await stage.store.runs.get(run.runId))?.spec;
      expect(swept).toEqual({ ...run.spec, input: kept, debug: undefined });
      // The failed run may be started again, and no heartbeat has seen the event yet, so both keep their texts.
      expect((await stage.store.runs.get(failed.runId))?.spec.input).toEqual(parts);
      expect(
        (await stage.store.systemEvents.listQueued({ agentId: "main", limit: 5 })).map(
          (one) => one.text,
        ),
      ).toContainEqual(parts);
      await stage.store.commit((tx) => {
        tx.systemEvents.update([wake.systemEventId], { state: "done" });
        tx.runs.update(failed.runId, { status: "succeeded" });
      });
      await stage.store.sweep(START, now);
      expect((await stage.store.runs.get(failed.runId))?.spec.input).toEqual(kept);
      expect(
        (await stage.store.systemEvents.list({ state: "done" })).map((one) => one.text),
      ).toEqual([kept]);
    });

    it("takes a body before the work was taken up without harm to the work", async () => {
      const action = runAction();
      const accepting = stage.store.accept(event({ actions: [action, wakeAction()] }));
      const sweeping = stage.store.sweep(START + 60 * DAY, KEEP);
      await Promise.all([accepting, sweeping]);
      await stage.store.sweep(START + 60 * DAY, KEEP);
      expect(await stage.queue.fetch("turn", 1)).toMatchObject([{ id: action.runId }]);
      expect(await stage.store.runs.get(action.runId)).toMatchObject({
        spec: action.spec,
      });
      expect(await stage.store.systemEvents.listQueued({ agentId: "main", limit: 5 })).toHaveLength(
        1,
      );
    });

    it("deletes events and runs after their time, but none that has work left", async () => {
      stage.clock.advance(DAY);
      const [done, open] = [await accepted(), await accepted()];
      await end(done.action, START + DAY);
      const at = START + 30 * DAY;
      await stage.store.sweep(at, KEEP);
      expect(await stage.store.events.get(done.event.id)).toBeDefined();
      await stage.store.sweep(at + 1, KEEP);
      expect(await stage.store.events.get(done.event.id)).toBeUndefined();
      expect(await stage.store.events.get(open.event.id)).toBeDefined();
      expect(await stage.store.runs.get(done.action.runId)).toBeDefined();
      await stage.store.sweep(at + DAY + 1, KEEP);
      expect(await stage.store.runs.get(done.action.runId)).toBeUndefined();
      expect(await stage.store.runs.get(open.action.runId)).toBeDefined();
      expect(await stage.store.counts()).toMatchObject({
        "events.accepted": 1,
        "runs.queued": 1,
        "runs.succeeded": 0,
      });
    });

    it("once all events are gone, the next one still starts", async () => {
      for (let n = 0; n < 3; n++) {
        const { action } = await accepted();
        const [one] = await stage.queue.fetch("turn", 1);
        await stage.store.commit((tx) => {
          tx.runs.update(action.runId, { status: "succeeded", endedAt: START });
          tx.jobs.settle(one as Job);
        }, one);
      }
      await stage.store.sweep(START + 90 * DAY, KEEP);
      expect(await stage.store.events.list({})).toEqual([]);
      await stage.store.close();
      const next = await stage.home.open();
      const action = runAction();
      await next.store.accept(event({ actions: [action] }));
      expect(await next.queue.fetch("turn", 1)).toMatchObject([{ id: action.runId }]);
      await next.store.close();
    });

    it("deletes sessions of hooks, and later of the API, that are not used any more, and no others", async () => {
      stage.clock.advance(DAY);
      const refs = [
        hookSession("old"),
        hookSession("used"),
        { agentId: "main", origin: "main" as const, key: "main" },
        { agentId: "main", origin: "api" as const, key: "a" },
      ];
      await stage.store.commit((tx) => {
        for (const ref of refs) tx.sessions.addTurn(ref, turn("r"));
        tx.sessions.addTurn(hookSession("used"), turn("r", { at: START + DAY }));
      });
      await stage.store.sweep(START + 30 * DAY + 1, KEEP);
      expect((await stage.store.sessions.list({})).map((one) => one.ref.key).toSorted()).toEqual([
        "a",
        "main",
        "used",
      ]);
      expect(await stage.store.sessions.listTurns(hookSession("old"))).toEqual([]);
      expect(await stage.store.sessions.listTurns(hookSession("used"))).toHaveLength(2);
      await stage.store.sweep(START + 90 * DAY + 1, KEEP);
      expect((await stage.store.sessions.list({})).map((one) => one.ref.key)).toEqual(["main"]);
    });

    it("deletes the oldest turns of long main and channel sessions once a checkpoint covers them, and at twice as many without one", async () => {
      const refs = [
        MAIN_SESSION,
        { agentId: "main", origin: "channel" as const, key: "channel:x:room:1" },
        hookSession("long"),
      ];
      await stage.store.commit((tx) => {
        for (const ref of refs)
          for (let n = 1; n <= 12; n++) tx.sessions.addTurn(ref, turn(`r${n}`));
      });
      const keep = { ...KEEP, sessionTurns: 6 };
      const runsOf = async (ref: SessionRef) =>
        (await stage.store.sessions.listTurns(ref)).map(({ runId }) => runId);
      const count = async (ref: SessionRef) => (await stage.store.sessions.get(ref))?.turns;
      expect(await stage.store.sweep(START, keep)).toBe(0);
      const seqs = (await stage.store.sessions.listTurns(MAIN_SESSION)).map(({ seq }) => seq);
      await stage.store.commit((tx) => {
        tx.sessions.addTurn(
          MAIN_SESSION,
          turn("c", { checkpoint: buildCheckpoint(seqs[3] as number) }),
        );
        for (const ref of refs.slice(1))
          for (let n = 13; n <= 15; n++) tx.sessions.addTurn(ref, turn(`r${n}`));
      });
      expect(await stage.store.sweep(START, keep)).toBe(4 + 3);
      expect(await runsOf(MAIN_SESSION)).toEqual([
        ...Array.from({ length: 8 }, (_, n) => `r${n + 5}`),
        "c",
      ]);
      expect(await runsOf(refs[1] as SessionRef)).toEqual(
        Array.from({ length: 12 }, (_, n) => `r${n + 4}`),
      );
      expect(await runsOf(refs[2] as SessionRef)).toHaveLength(15);
      expect(await Promise.all(refs.map(count))).toEqual([9, 12, 15]);
      expect(await stage.store.sweep(START, keep)).toBe(0);
    });

    it("deletes what has ended of deliveries and system events, and keys that are free", async () => {
      stage.clock.advance(DAY);
      await stage.store.accept(event(), [
        dedupe(),
        dedupe({ key: "k2", expiresAt: START + 90 * DAY }),
      ]);
      await stage.store.commit((tx) => {
        tx.deliveries.add(delivery("done"));
        tx.deliveries.add(delivery("late"));
        tx.deliveries.add(delivery("open"));
        tx.deliveries.add(
          delivery("no route", {
            route: { channel: "last" },
            error: { code: "no_route", message: "none" },
          }),
        );
        tx.deliveries.update("done", { status: "delivered", endedAt: START });
        tx.deliveries.update("late", { status: "delivered", endedAt: START + DAY });
        for (const id of ["s1", "s2", "s3"]) tx.systemEvents.add(systemEvent(id));
        tx.systemEvents.update(["s1"], { state: "done" });
        tx.systemEvents.update(["s2"], { state: "parked" });
      });
      // The event, its key, two deliveries, two system events; its body went with it.
      expect(await stage.store.sweep(START + 30 * DAY + 1, { ...KEEP, bodies: 90 * DAY })).toBe(6);
      expect((await stage.store.deliveries.list({})).map((one) => one.id)).toEqual([
        "open",
        "late",
      ]);
      expect((await stage.store.systemEvents.list({})).map((one) => one.id)).toEqual(["s3"]);
      expect(await stage.store.counts()).toMatchObject({
        "deliveries.delivered": 1,
        "deliveries.pending": 1,
        "deliveries.no_route": 0,
        "systemEvents.queued": 1,
        "systemEvents.done": 0,
        "systemEvents.parked": 0,
      });
      expect(
        (await stage.store.findDuplicates([dedupe(), dedupe({ key: "k2" })])).map(
          (found) => found !== undefined,
        ),
      ).toEqual([false, true]);
    });

    it("goes through more than one slice", async () => {
      const many = SWEEP_SLICE + 100;
      await Promise.all(
        Array.from({ length: many }, () => stage.store.accept(event({ outcome: "skipped" }))),
      );
      await stage.store.commit((tx) => {
        for (let n = 0; n < many; n++) tx.runs.add(run({ status: "failed", endedAt: START }));
      });
      expect(await stage.store.sweep(START + 5 * DAY, KEEP)).toBe(many);
      expect(await stage.store.sweep(START + 90 * DAY, KEEP)).toBe(2 * many);
      expect(await stage.store.counts()).toMatchObject({
        "events.skipped": 0,
        "runs.failed": 0,
      });
    });
  });
}
