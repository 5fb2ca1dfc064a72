import {
  ALL_RUNS,
  countsAfter,
  countUsedTokens,
  DAY_WINDOW,
  HOUR_WINDOW,
  isInLine,
  MICRO,
  PARKED_FROM,
  RESOURCES,
  toBucket,
  toCounter,
  type Counted,
  type CountedScope,
  type ParkedMapping,
  type LoanRequest,
  type Ms,
  type RunRecord,
  type UsageStore,
} from "rouse/store-kit";
import type { Data } from "./data.ts";

const WAITING: readonly string[] = ["parked", "collecting", "queued"];
const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0);

/** Counts the runs themselves, which are all in memory. A store on disk keeps counters (`countChange`) instead. */
function count({ runs }: Data, counters: readonly string[], now: Ms): Counted {
  const own = [...runs.values()].filter(
    ({ kind, mapping }) =>
      kind === "hook" &&
      (counters.includes(ALL_RUNS) ||
        (mapping !== undefined && counters.includes(toCounter(mapping)))),
  );
  const inWindow = (at: Ms | undefined, window: typeof HOUR_WINDOW): at is Ms =>
    at !== undefined && toBucket(window, at) > countsAfter(window, now);
  const countStatus = (is: (run: RunRecord) => boolean): number => own.filter(is).length;
  return {
    running: countStatus(({ status }) => status === "running"),
    waiting: countStatus(({ status }) => WAITING.includes(status)),
    parked: countStatus(({ status }) => status === "parked"),
    inLine: countStatus(isInLine),
    hour: own.flatMap(({ startedAt: at }) =>
      inWindow(at, HOUR_WINDOW) ? [{ at: toBucket(HOUR_WINDOW, at), starts: 1 }] : [],
    ),
    day: own.flatMap((run) => {
      const at = run.endedAt ?? run.startedAt;
      if (!inWindow(at, DAY_WINDOW)) return [];
      return [
        {
          at: toBucket(DAY_WINDOW, at),
          tokens: countUsedTokens(run),
          micros: Math.round((run.usage?.costUsd ?? 0) * MICRO),
        },
      ];
    }),
  };
}

function lend(data: Data, { scope, counters, limits, held, needed, ahead }: LoanRequest, now: Ms) {
  const counted = count(data, counters, now);
  const used = {
    starts: counted.hour.length,
    places: counted.running,
    tokens: sum(counted.day.map(({ tokens }) => tokens)),
    micros: sum(counted.day.map(({ micros }) => micros)),
  };
  const loans = RESOURCES.flatMap((name) => {
    const limit = limits[name];
    if (limit === undefined) return [];
    const room = Math.max(0, limit - used[name] - held[name]);
    return [{ name, room, lent: Math.min(room, needed[name] + ahead[name]) }];
  });
  return {
    scope,
    ...counted,
    lent: Object.fromEntries(loans.map(({ name, lent }) => [name, lent])),
    left: Object.fromEntries(loans.map(({ name, room, lent }) => [name, room - lent])),
  };
}

/** What limits ask of a store. `released` is called when runs may start. */
export function createUsage(data: Data, now: () => Ms, released: () => void): UsageStore {
  const parked = (): RunRecord[] =>
    [...data.runs.values()].filter(({ kind, status }) => kind === "hook" && status === "parked");
  const countScope = ({ scope, counters }: CountedScope): [string, Counted] => [
    scope,
    count(data, counters, now()),
  ];
  return {
    shared: false,
    lend: async (requests) => requests.map((request) => lend(data, request, now())),
    count: async (scopes) => new Map(scopes.map(countScope)),
    async lanes() {
      const lanes = new Map<string, ParkedMapping>();
      const [runs, waiting] = [parked(), new Set(data.jobs.firstFrom("turn", PARKED_FROM))];
      for (const { id, mapping = "" } of runs) {
        const lane = lanes.get(mapping) ?? { mapping, waits: false, released: 0 };
        if (waiting.has(id)) lane.waits = true;
        else if (!data.jobs.waitsUntil("turn", id, PARKED_FROM)) lane.released++;
        lanes.set(mapping, lane);
      }
      return { lanes: [...lanes.values()], parked: runs.length };
    },
    async release(wanted) {
      const mappings = new Map(parked().map(({ id, mapping = "" }) => [id, mapping]));
      const counts = wanted.map(({ mapping, count: most }) => {
        const ids = data.jobs
          .firstFrom("turn", PARKED_FROM)
          .filter((id) => mappings.get(id) === mapping);
        for (const id of ids.slice(0, most)) data.jobs.reschedule("turn", id, now(), now());
        return Math.min(most, ids.length);
      });
      released();
      return counts;
    },
    async tidy() {
      // Nothing is kept beside the runs.
    },
  };
}
