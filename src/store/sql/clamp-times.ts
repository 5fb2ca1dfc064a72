import { AHEAD_MS } from "./sweep-plan.ts";
import type { Ms, Store, Writes } from "../types.ts";

/** The times of records that retention counts from. */
const TIMES = ["receivedAt", "createdAt", "endedAt", "at"];

/** The record with the latest possible time in place of those that lie more than `AHEAD_MS` ahead of it. */
function clamp<T>(record: T, latest: Ms): T {
  if (typeof record !== "object" || record === null) return record;
  const fields = record as Record<string, unknown>;
  const ahead = TIMES.filter(
    (name) => typeof fields[name] === "number" && fields[name] > latest + AHEAD_MS,
  );
  return ahead.length === 0
    ? record
    : { ...record, ...Object.fromEntries(ahead.map((name) => [name, latest])) };
}

function clamping(tx: Writes, latest: Ms): Writes {
  const clampAll =
    <Of extends unknown[]>(write: (...of: Of) => void) =>
    (...of: Of): void =>
      write(...(of.map((value) => clamp(value, latest)) as Of));
  const { events, runs, steps, sessions, systemEvents, deliveries, approvals } = tx;
  return {
    ...tx,
    events: { update: clampAll(events.update) },
    runs: { ...runs, add: clampAll(runs.add), update: clampAll(runs.update) },
    steps: { add: clampAll(steps.add), updateCall: clampAll(steps.updateCall) },
    sessions: { ...sessions, addTurn: clampAll(sessions.addTurn) },
    systemEvents: { ...systemEvents, add: clampAll(systemEvents.add) },
    deliveries: { add: clampAll(deliveries.add), update: clampAll(deliveries.update) },
    approvals: {
      add: clampAll(approvals.add),
      decide: clampAll(approvals.decide),
      addRefused: clampAll(approvals.addRefused),
    },
  };
}

/**
 * The same store, which takes no times from the future: a row from a clock that was wrong would be kept for as much longer.
 * `getLatest` returns the present, by the clock that the store goes by.
 */
export function clampTimes(store: Store, getLatest: () => Ms): Store {
  return {
    ...store,
    accept: (event, keys, fencingToken) =>
      store.accept(clamp(event, getLatest()), keys, fencingToken),
    commit: (write, held) => store.commit((tx) => write(clamping(tx, getLatest())), held),
  };
}
