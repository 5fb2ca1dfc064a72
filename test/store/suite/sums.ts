import { describe, expect, it } from "vitest";
import { newId } from "../../../src/core/ids.ts";
import { NO_ROUTE, type FailureSum, type RunRecord } from "../../../src/store/types.ts";
import { DAY, delivery, event, HOUR, messageSpec, run, spec, START } from "./make.ts";
import type { Stage } from "./stage.ts";

const ALL = { since: START - DAY, limit: 1000 };
const HOUR_OF_START = START / HOUR;

async function readFailures(stage: Stage, query = ALL): Promise<FailureSum[]> {
  const found = await stage.store.failures.sum(query);
  const name = ({ kind, state, code, hour }: FailureSum): string =>
    [kind, state, code, hour].join(" ");
  return found.toSorted((one, other) => (name(one) < name(other) ? -1 : 1));
}

const failedRun = (change: Partial<RunRecord> = {}): RunRecord =>
  run({
    status: "failed",
    endedAt: START + 5,
    mapping: "m1",
    error: { code: "internal", message: "broken" },
    ...change,
  });

function testActivity(stage: Stage): void {
  it("activity: events by step and outcome, since a time", async () => {
    const at = (minutes: number): number => START + minutes * 60_000;
    stage.clock.advance(HOUR);
    for (const [minutes, outcome] of [
      [-10, "accepted"],
      [1, "accepted"],
      [1, "failed"],
      [1.5, "accepted"],
      [7, "accepted"],
    ] as const)
      await stage.store.accept(event({ receivedAt: at(minutes), outcome }));
    const found = await stage.store.events.sumActivity({
      since: START,
      step: 60_000,
      limit: 1000,
    });
    expect(
      found.toSorted((one, other) => one.at - other.at || (one.outcome < other.outcome ? -1 : 1)),
    ).toEqual([
      { at: at(1), outcome: "accepted", count: 2 },
      { at: at(1), outcome: "failed", count: 1 },
      { at: at(7), outcome: "accepted", count: 1 },
    ]);
  });
}

function testFailedEvents(stage: Stage): void {
  it("failures: events without work, by path, mapping, condition, reason and sender; those that are dealt with are left out", async () => {
    const lost = {
      outcome: "unmatched" as const,
      path: "shop",
      nearest: { mapping: "m1", condition: "type" },
      reason: "no mapping",
    };
    const events = [
      event(lost),
      event({ ...lost, receivedAt: START + 10, id: newId("evt", START + 10) }),
      event({ ...lost, receivedAt: START + HOUR }),
      event({ outcome: "failed", path: "shop", mapping: "m1", reason: "broken" }),
      event({ outcome: "failed", path: "shop", mapping: "m1", reason: "broken" }),
      event({ outcome: "accepted" }),
    ];
    stage.clock.advance(HOUR);
    for (const one of events) await stage.store.accept(one);
    const handled = { at: START, as: "discarded" as const, reason: "known" };
    await stage.store.commit((tx) => tx.events.update(events[4]?.id ?? "", { handled }));
    const cause = {
      kind: "event",
      path: "shop",
      mapping: "m1",
      provider: null,
      channel: null,
      sender: "hooks.token",
    };
    const failed = { ...cause, state: "failed", code: null, reason: "broken", message: "broken" };
    const unmatched = {
      ...cause,
      state: "unmatched",
      code: "type",
      reason: "no mapping",
      message: "no mapping",
    };
    expect(await readFailures(stage)).toEqual([
      {
        ...failed,
        hour: HOUR_OF_START,
        count: 1,
        first: START,
        last: START,
        example: events[3]?.id,
      },
      {
        ...unmatched,
        hour: HOUR_OF_START,
        count: 2,
        first: START,
        last: START + 10,
        example: events[1]?.id,
      },
      {
        ...unmatched,
        hour: HOUR_OF_START + 1,
        count: 1,
        first: START + HOUR,
        last: START + HOUR,
        example: events[2]?.id,
      },
    ]);
    expect(
      (await readFailures(stage, { ...ALL, since: START + HOUR })).map(({ count }) => count),
    ).toEqual([1]);
  });

  it("failures: events of which some actions failed, until they are dealt with", async () => {
    const reason = "1 of 2 actions failed: action 2: no";
    const failed = { mapping: "m1", path: "shop", reason, failedActions: 1 };
    const events = [
      event({ ...failed, outcome: "accepted" }),
      event({ ...failed, outcome: "duplicate" }),
      event({
        outcome: "accepted",
        request: { ...event().request, query: { failedActions: "1" } },
      }),
    ];
    for (const one of events) await stage.store.accept(one);
    expect(await readFailures(stage)).toMatchObject([
      { kind: "event", state: "accepted", path: "shop", mapping: "m1", reason, count: 2 },
    ]);
    const handled = { at: START, as: "discarded" as const, reason: "known" };
    for (const { id } of events)
      await stage.store.commit((tx) => tx.events.update(id, { handled }));
    expect(await readFailures(stage)).toEqual([]);
  });

  it("failures: the newest of each kind only", async () => {
    for (let n = 0; n < 5; n++)
      await stage.store.accept(event({ outcome: "unmatched", path: `p${n}` }));
    expect(
      (await readFailures(stage, { ...ALL, limit: 2 })).map(({ path }) => `${path}`).toSorted(),
    ).toEqual(["p3", "p4"]);
  });
}

function testFailedWork(stage: Stage): void {
  it("failures: runs by path, mapping, error, provider and sender, deliveries by channel and error", async () => {
    const via = { path: "shop", credential: "hooks.token" };
    const lost = delivery("dlv_1", { error: { code: NO_ROUTE, message: "no recipient" } });
    const sent = delivery("dlv_2");
    const refused = delivery("dlv_3");
    const runs = [
      failedRun({ spec: { ...spec(), session: { ...spec().session, via } } }),
      failedRun({ error: { code: "provider_error", message: "no", provider: "acme" } }),
      failedRun({ status: "timed_out", error: { code: "timeout", message: "too long" } }),
      failedRun({
        kind: "api",
        error: { code: "crashed", message: "no" },
        spec: { ...spec(), hook: "api:front" },
      }),
      failedRun({
        kind: "channel",
        error: { code: "rate_limited", message: "no" },
        spec: messageSpec("hook:one"),
      }),
      failedRun({ kind: "schedule", error: { code: "skipped", message: "no" } }),
      run({ status: "succeeded", endedAt: START }),
    ];
    await stage.store.commit((tx) => {
      for (const one of runs) tx.runs.add(one);
      for (const one of [lost, sent, refused]) tx.deliveries.add(one);
      const error = { code: "given_up", message: "gone" } as const;
      tx.deliveries.update(refused.id, { status: "failed", error, endedAt: START + 7 });
      tx.deliveries.update(sent.id, { status: "delivered", endedAt: START });
    });
    const found = await readFailures(stage);
    expect(
      found.map(({ kind, state, path, mapping, code, provider, channel, sender }) => [
        kind,
        state,
        path,
        mapping,
        code,
        provider ?? channel,
        sender,
      ]),
    ).toEqual([
      ["delivery", "failed", null, null, "given_up", refused.route.channel, null],
      ["delivery", "no_route", null, null, NO_ROUTE, lost.route.channel, null],
      ["run", "failed", null, "m1", "crashed", null, "api:front"],
      ["run", "failed", "shop", "m1", "internal", null, "hooks.token"],
      ["run", "failed", null, "m1", "provider_error", "acme", null],
      ["run", "failed", null, "m1", "rate_limited", null, "channel:rooms"],
      ["run", "failed", null, "m1", "skipped", null, null],
      ["run", "timed_out", null, "m1", "timeout", null, null],
    ]);
    expect(found[0]).toMatchObject({
      example: refused.id,
      message: "gone",
      first: START + 7,
      count: 1,
    });
    expect(found[3]).toMatchObject({ example: runs[0]?.id, message: "broken", last: START + 5 });
  });
}

function testQueuedSince(stage: Stage): void {
  it("queuedSince: since when the run waits that has waited longest in the queue, without what held it back before", async () => {
    const { store } = stage.handle;
    expect(await store.runs.getQueuedSince()).toBeUndefined();
    await store.commit((tx) => {
      tx.runs.add(run({ status: "parked", createdAt: START - DAY }));
      tx.runs.add(run({ status: "queued", createdAt: START - HOUR, queuedAt: START + 9 }));
      const hold = { reason: "delay", since: START, until: START + 9 } as const;
      tx.runs.add(run({ status: "queued", createdAt: START - HOUR, hold }));
      tx.runs.add(run({ status: "queued", createdAt: START + 5 }));
      tx.runs.add(run({ status: "succeeded", createdAt: START, endedAt: START }));
    });
    expect(await store.runs.getQueuedSince()).toBe(START + 5);
  });
}

/** Counts over time, and failures by their cause. */
export function testSums(stage: Stage): void {
  describe("sums", () => {
    testActivity(stage);
    testQueuedSince(stage);
    testFailedEvents(stage);
    testFailedWork(stage);
  });
}
