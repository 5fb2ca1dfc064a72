import { describe, expect, it } from "vitest";
import type { EventRecord } from "../../../src/store/types.ts";
import {
  DAY,
  delivery,
  event,
  HOUR,
  hookSession,
  KEEP,
  run,
  runAction,
  START,
  systemEvent,
  turn,
} from "./make.ts";
import type { Stage } from "./stage.ts";

/** The actions of the retention tests on the store. */
function createSweeps(stage: Stage) {
  const accept = async (change: Partial<EventRecord> = {}): Promise<string> => {
    const given = event({ outcome: "skipped", receivedAt: stage.clock.now(), ...change });
    await stage.store.accept(given);
    return given.id;
  };
  const hasBody = async (id: string): Promise<boolean | undefined> => {
    const found = await stage.store.events.get(id);
    if (!found) return undefined;
    const { body } = found.request;
    return body !== null;
  };
  const sweep = (bodies = KEEP.bodies): Promise<number> =>
    stage.store.sweep(stage.clock.now(), { ...KEEP, bodies });
  return { accept, hasBody, sweep };
}

function testFutureTimes(stage: Stage): void {
  const { accept, sweep } = createSweeps(stage);

  it("takes no times from the future: they are the present", async () => {
    const { store } = stage.handle;
    const future = START + 400 * DAY;
    const action = runAction();
    const { id } = event();
    await store.accept(event({ id, receivedAt: future, actions: [action] }));
    const near = await accept({ receivedAt: START + 30_000 });
    const one = run({ createdAt: future, status: "succeeded", endedAt: future });
    await store.commit((tx) => {
      tx.runs.add(one);
      tx.deliveries.add(delivery("d", { createdAt: future }));
      tx.deliveries.update("d", { status: "delivered", endedAt: future });
      tx.systemEvents.add(systemEvent("s", { at: future }));
      tx.sessions.addTurn(hookSession(), turn("r", { at: future }));
      tx.runs.update(action.runId, { status: "succeeded", endedAt: future });
    });
    expect((await store.events.get(id))?.receivedAt).toBe(START);
    expect((await store.events.get(near))?.receivedAt).toBe(START + 30_000);
    expect(await store.runs.get(action.runId)).toMatchObject({
      createdAt: START,
      endedAt: START,
    });
    expect(await store.runs.get(one.id)).toMatchObject({ createdAt: START, endedAt: START });
    expect(await store.deliveries.get("d")).toMatchObject({ createdAt: START, endedAt: START });
    expect(await store.systemEvents.list({})).toMatchObject([{ at: START }]);
    expect(await store.sessions.get(hookSession())).toMatchObject({ lastUsedAt: START });
    stage.clock.advance(91 * DAY);
    await sweep();
    expect(await store.events.list({})).toEqual([]);
    expect(await store.runs.list({})).toEqual([]);
    expect(await store.deliveries.list({})).toEqual([]);
    expect(await store.sessions.list({})).toEqual([]);
  });
}

function testAheadRows(stage: Stage): void {
  const { accept, hasBody, sweep } = createSweeps(stage);

  it("one row from a clock that was ahead keeps nothing else", async () => {
    const { clock } = stage.home;
    const before = await accept();
    // A time that was the present when it was written.
    clock.set(400 * DAY);
    const ahead = await accept();
    clock.set(-400 * DAY);
    const after = await accept();
    clock.advance(3 * DAY + HOUR);
    const young = await accept();
    await sweep();
    expect([await hasBody(before), await hasBody(after), await hasBody(young)]).toEqual([
      false,
      false,
      true,
    ]);
    expect([false, true]).toContain(await hasBody(ahead));
    clock.advance(30 * DAY);
    await sweep();
    expect([await hasBody(before), await hasBody(after), await hasBody(young)]).toEqual([
      undefined,
      undefined,
      false,
    ]);
  });
}

function testOldestBody(stage: Stage): void {
  const { accept, sweep } = createSweeps(stage);

  it("says when the oldest body is from whose runs have ended", async () => {
    const { clock } = stage.home;
    const { store } = stage.handle;
    expect(await store.oldestBody(clock.now())).toBeUndefined();
    await accept({ outcome: "accepted", actions: [runAction()] });
    clock.set(400 * DAY);
    await accept();
    clock.set(-400 * DAY);
    clock.advance(HOUR);
    await accept();
    clock.advance(HOUR);
    await accept();
    await store.counts();
    expect(await store.oldestBody(clock.now())).toBe(START + HOUR);
    clock.advance(3 * DAY - HOUR);
    await sweep();
    expect(await store.oldestBody(clock.now())).toBe(START + 2 * HOUR);
  });
}

/** Retention while clocks are wrong. */
export function testSweepClock(stage: Stage): void {
  describe("the clock and retention", () => {
    testFutureTimes(stage);
    testAheadRows(stage);
    testOldestBody(stage);
  });
}
