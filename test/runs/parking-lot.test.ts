import { expect, it } from "vitest";
import type { CallOutcome } from "../../src/core/breaker.ts";
import { ChannelGate } from "../../src/delivery/send.ts";
import { mainSession, type Job, type Store, type Writes } from "../../src/store/types.ts";
import { manualClock } from "../delivery/support.ts";
import { restoreWaitingRuns } from "../../src/turns/model-gate.ts";
import { newParking } from "../parking.ts";

/** Writes that keep the ids of jobs which are woken. */
function createWrites(): { commit: Store["commit"]; takeWoken(): string[] } {
  const woken: string[] = [];
  const reschedule = (_kind: string, id: string): void => void woken.push(id);
  const commit: Store["commit"] = async (write) => {
    write({ jobs: { reschedule } } as unknown as Writes);
    return true;
  };
  return { commit, takeWoken: () => woken.splice(0) };
}

it("parked runs: one wakes that waits behind a run which was woken here and now waits at another gateway", async () => {
  const clock = manualClock();
  const { commit, takeWoken } = createWrites();
  const parking = newParking({ commit }, clock);
  const park = (id: string): void =>
    parking.park({ id, kind: "turn", key: "main/hook/one" }, ["local/big"]);
  park("first");
  await clock.advance(1);
  expect(takeWoken()).toEqual(["first"]);
  // Another gateway has taken the first one, and lets it wait once more: this one hears nothing of that.
  park("second");
  await clock.advance(29_000);
  expect(takeWoken()).toEqual([]);
  await clock.advance(31_000);
  expect(takeWoken()).toEqual(["first", "second"]);
});

it("parked runs: the next one wakes as soon as another gateway had an answer for the one that was woken", async () => {
  const clock = manualClock();
  const { commit, takeWoken } = createWrites();
  const parking = newParking({ commit }, clock);
  parking.breaker.open("local/big", clock.now());
  for (const id of ["first", "second", "third"])
    parking.park({ id, kind: "turn", key: `main/hook/${id}` }, ["local/big"]);
  await clock.advance(1);
  expect(takeWoken()).toEqual(["first"]);
  parking.answered("first", "local/big");
  await clock.advance(1);
  expect(takeWoken()).toEqual(["second"]);
  // It comes back to this gateway, which has its own answer.
  const pass = parking.enter({ id: "second" }, ["local/big"], { wasParked: true });
  expect(pass).toMatchObject({ isProbe: true });
  if ("leave" in pass) pass.leave("ok");
  await clock.advance(1);
  expect([takeWoken(), parking.states()]).toEqual([
    ["third"],
    [expect.objectContaining({ state: "closed" })],
  ]);
});

it("parked runs: the answer for a run or a delivery that waited elsewhere is reported", () => {
  const answered: string[][] = [];
  const parking = newParking(
    { commit: async () => true },
    manualClock(),
    (...of) => void answered.push(of),
  );
  const call = (id: string, wasParked: boolean, outcome: CallOutcome): void => {
    const pass = parking.enter({ id }, ["local/big"], { wasParked });
    if ("leave" in pass) pass.leave(outcome);
  };
  call("fresh", false, "ok");
  call("waited", true, "ok");
  call("refused", true, "away");
  const pass = new ChannelGate(parking).enter({ id: "delivery" } as Job, "acme", true);
  if ("leave" in pass) pass.leave("ok");
  expect(answered).toEqual([
    ["waited", "local/big"],
    ["delivery", "acme"],
  ]);
});

it("parked runs: a heartbeat wakes that waited for its model when the process ended", async () => {
  const clock = manualClock();
  const { commit, takeWoken } = createWrites();
  const parking = newParking({ commit }, clock);
  const session = mainSession("main");
  const run = {
    id: "run_1",
    kind: "heartbeat",
    status: "parked",
    spec: { session },
    hold: { reason: "away", of: "local/big", until: 0, since: 0 },
  };
  const store = {
    counts: async () => ({ "runs.parked": 1 }),
    runs: { list: async () => [run] },
  } as unknown as Store;
  const context = {
    agents: new Map([["main", { resolved: { ok: false } }]]),
  } as unknown as Parameters<typeof restoreWaitingRuns>[1]["context"];
  await restoreWaitingRuns(parking, { store, clock, context });
  await clock.advance(60_000);
  expect(takeWoken()).toContain("heartbeat:main");
});
