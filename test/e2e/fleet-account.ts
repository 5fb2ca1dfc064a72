import { expect } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { plainText } from "../../src/core/text.ts";
import { openStore } from "../../src/store/open.ts";
import type { RunRecord, Store } from "../../src/store/types.ts";
import { silent } from "../store/home.ts";
import type { Fleet } from "./fleet.ts";

const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** Waits until nothing is left to do. */
export async function drained(storeUrl: string, ms: number): Promise<void> {
  const { store } = await openStore({ url: storeUrl, clock: systemClock, log: silent });
  const left = async (): Promise<number> => {
    const counts = await store.counts();
    return [
      "runs.queued",
      "runs.running",
      "jobs.delivery",
      "deliveries.pending",
      "systemEvents.queued",
    ].reduce((sum, name) => sum + (counts[name] ?? 0), 0);
  };
  for (const end = Date.now() + ms; (await left()) > 0 && Date.now() < end;) await pause(250);
  await store.close();
}

export async function allRuns(store: Store): Promise<RunRecord[]> {
  const runs: RunRecord[] = [];
  for (let before: string | undefined; ;) {
    const page = await store.runs.list({
      limit: 1000,
      ...(before === undefined ? {} : { before }),
    });
    runs.push(...page);
    before = page.at(-1)?.id;
    if (page.length < 1000) return runs;
  }
}

/** The error of a delivery whose gateway was killed while it sent. It is not sent again, since no gateway can know if it arrived. */
const CUT_OFF = "the gateway ended while it sent this chunk";

/** The run was given up after three starts that kills cut off: the one other end that the contract has. */
const isGivenUp = (run: RunRecord | undefined): boolean =>
  run?.status === "failed" && run.error?.code === "crashed" && run.attempts === 3;

/** Compares the answers to senders with the finished work, once nothing is left to do. `ranMs`: the time that the timer of heartbeats ran. */
export async function settle(
  fleet: Fleet,
  storeUrl: string,
  timer: { everyMs: number; ranMs: number; kills: number },
): Promise<string> {
  const { account, arrived } = fleet;
  const { store } = await openStore({ url: storeUrl, clock: systemClock, log: silent });
  try {
    const counts = await store.counts();
    expect({
      queued: counts["runs.queued"],
      running: counts["runs.running"],
      pending: counts["deliveries.pending"],
    }).toEqual({
      queued: 0,
      running: 0,
      pending: 0,
    });
    const all = await allRuns(store);
    const runs = new Map(all.map((run) => [run.id, run]));
    const odd = account.runs.filter(
      ({ runId }) => runs.get(runId)?.status !== "succeeded" && !isGivenUp(runs.get(runId)),
    );
    expect(
      odd.map(({ runId }) => [runId, runs.get(runId)?.status, runs.get(runId)?.error]),
    ).toEqual([]);
    const givenUp = account.runs.filter(({ runId }) => isGivenUp(runs.get(runId))).length;

    // Each conversation has each of its runs once, in the order in which they were acknowledged.
    let turns = 0;
    for (const [key, mine] of Map.groupBy(account.runs, (entry) => entry.key)) {
      const ids = (
        await store.sessions.listTurns({
          agentId: "main",
          origin: "hook",
          key,
          via: { path: "agent", credential: "hooks.token" },
        })
      ).map((turn) => turn.runId);
      expect(new Set(ids).size).toBe(ids.length);
      const done = mine
        .filter(({ runId }) => !isGivenUp(runs.get(runId)))
        .map(({ runId }) => runId);
      const places = done.map((runId) => ids.indexOf(runId));
      expect(places).not.toContain(-1);
      expect(places).toEqual(places.toSorted((a, b) => a - b));
      turns += ids.length;
    }

    // Each reply arrived, under one key: by it a receiver knows a repeat.
    const succeeded = all.filter((run) => run.kind === "hook" && run.status === "succeeded");
    const deliveries = await Promise.all(
      succeeded.map(async ({ deliveryId = "" }) => store.deliveries.get(deliveryId)),
    );
    const cutOff = deliveries.filter(
      (one) => one?.status === "unknown" && one.error?.message.startsWith(CUT_OFF),
    );
    // A gateway sends one message to a recipient at a time.
    expect(cutOff.length).toBeLessThanOrEqual(timer.kills);
    const known = deliveries.filter((one) => !cutOff.includes(one));
    expect(
      known
        .filter((one) => one?.status !== "delivered")
        .map((one) => [one?.id, one?.status, one?.error]),
    ).toEqual([]);
    expect(
      known.filter((one) => !arrived.has(`${one?.id}.0`)).map((one) => [one?.runId, one?.id]),
    ).toEqual([]);
    const expected = new Set(deliveries.map((one) => `${one?.id}.0`));
    expect([...arrived.keys()].filter((key) => !expected.has(key))).toEqual([]);
    const repeated = [...arrived.values()].filter((times) => times > 1).length;

    // Each wake was before exactly one heartbeat that came to an end, and the timer did not begin more than its interval allows.
    const beats = all.filter((run) => run.kind === "heartbeat" && run.status === "succeeded");
    const seen = beats.flatMap((run) => plainText(run.spec.input).match(/wake \d+\./g) ?? []);
    expect(seen.length).toBe(new Set(seen).size);
    expect(account.wakes.filter((wake) => !seen.includes(wake))).toEqual([]);
    expect(beats.length).toBeGreaterThan(0);
    // A full queue may bring batches of its own: those that had something to see are no doubles by the check above.
    const empty = beats.filter((run) =>
      plainText(run.spec.input).includes("Nothing has been queued"),
    );
    expect(empty.length).toBeLessThanOrEqual(Math.floor(timer.ranMs / timer.everyMs) + 1);
    expect(account.odd).toEqual([]);

    const statuses = [...account.statuses]
      .map(([status, count]) => `${count} × ${status}`)
      .join(", ");
    return [
      `${account.runs.length} runs and ${account.wakes.length} wakes acknowledged (${statuses}; ${account.unanswered} without an answer);`,
      `${account.runs.length - givenUp} runs succeeded once, ${givenUp} given up visibly, ${turns} turns kept in order;`,
      `${arrived.size} replies arrived, ${repeated} of them again under the same key, ${cutOff.length} of unknown outcome; ${beats.length} heartbeats saw ${seen.length} wakes once each`,
    ].join(" ");
  } finally {
    await store.close();
  }
}
