import { createPause } from "../../core/pause.ts";
import { WITHOUT_MAPPINGS } from "../../intake/authenticate.ts";
import { readRecordedHook } from "../../intake/replay.ts";
import type { ParsedHook, Snapshot } from "../../intake/types.ts";
import type { EventRecord, Store } from "../../store/types.ts";
import type { CompareOptions } from "./what-if-changes.ts";
import { getEffect, getRecordedEffect, UUID_END } from "./effect.ts";

import {
  Comparison,
  type Compared,
  type WhatIfLine,
  type WhatIfOptions,
} from "./what-if-report.ts";

export type { ChangeKind } from "./what-if-changes.ts";
export type * from "./what-if-report.ts";

/** Time between two lines of how far it came. */
const REPORT_MS = 100;
const MAX_RUNS = 1000;
/** Recorded actions have their own sessions, and no mapping's text. */
const COMPARE_ALL: CompareOptions = { unchanged: new Set(), isSameSession: (a, b) => a === b };

type Compare = (event: EventRecord) => Promise<Compared>;

/** Whether two session keys mean the same: those of runs that are given a session of their own end with a UUID by chance. */
const isSameSession =
  (input: ParsedHook) =>
  (a: string, b: string): boolean => {
    const [old, next] = [UUID_END.exec(a), UUID_END.exec(b)];
    if (!old || !next || a.slice(0, old.index) !== b.slice(0, next.index)) return a === b;
    const { payload, headers, query } = input;
    const given = JSON.stringify([payload, headers, query]);
    return !given.includes(old[0]) && !given.includes(next[0]);
  };

/** All of a config but the mappings. */
const writeRest = ({ config }: Snapshot): string =>
  JSON.stringify({
    ...config,
    hooks: { ...config.hooks, mappings: undefined, presets: undefined },
  });

/** The mappings of a path on both sides. */
interface PathPlan {
  isSame: boolean;
  unchanged: ReadonlySet<string>;
}

/** Finds out once for each path whether its events can change at all. */
function createPlans(
  before: Snapshot,
  after: Snapshot,
): (request: Pick<ParsedHook, "path" | "byHookToken">) => PathPlan {
  const isRestSame = writeRest(before) === writeRest(after);
  const plans = new Map<string, PathPlan>();
  return ({ path, byHookToken }) => {
    const key = `${byHookToken ? "*" : ""}${path}`;
    let plan = plans.get(key);
    if (!plan) {
      const [old, next] = [before, after].map(({ mappings }) => [
        ...mappings.written({ path, byHookToken }),
      ]) as [[string, string][], [string, string][]];
      const isNone = old.length === 0 && next.length === 0;
      const written = new Map(old);
      plan = {
        isSame: WITHOUT_MAPPINGS.has(path)
          ? isRestSame
          : isNone || (isRestSame && JSON.stringify(old) === JSON.stringify(next)),
        unchanged: new Set(
          isRestSame ? next.filter(([id, text]) => written.get(id) === text).map(([id]) => id) : [],
        ),
      };
      plans.set(key, plan);
    }
    return plan;
  };
}

const bySnapshots = (before: Snapshot, after: Snapshot): Compare => {
  const plan = createPlans(before, after);
  const isSameFormat = (path: string): boolean =>
    before.mappings.rules.get(path)?.body === after.mappings.rules.get(path)?.body;
  return async (event) => {
    const { path, credential } = event;
    const { isSame, unchanged } = plan({ path, byHookToken: credential === "hooks.token" });
    if (isSame) return { kind: "same", effect: getRecordedEffect(event) };
    const recorded = readRecordedHook(event, before);
    const changed = isSameFormat(path) ? recorded : readRecordedHook(event, after);
    if (!recorded.ok) return { kind: "skipped", reason: recorded.reason };
    if (!changed.ok) return { kind: "skipped", reason: changed.reason };
    // Expressions that both sides have are evaluated once.
    const input = { ...recorded.input, credential, results: new Map() };
    const later = changed === recorded ? input : { ...changed.input, credential };
    const options = { unchanged, isSameSession: isSameSession(input) };
    return {
      kind: "compared",
      before: await getEffect(input, before),
      after: await getEffect(later, after),
      options,
    };
  };
};

/** What a replay does with an event that has runs: those that failed start again, as they are. */
async function restartRuns(event: EventRecord, store: Pick<Store, "list">): Promise<Compared> {
  const runs = await store.list("runs", { eventId: event.id, limit: MAX_RUNS });
  const failed = runs
    .filter(({ status }) => status === "failed" || status === "timed_out")
    .toReversed();
  const actions = failed.map(({ id, spec, mapping, warnings }) => ({
    action: {
      kind: "run" as const,
      runId: id,
      spec,
      warnings,
      ...(mapping !== undefined && { mapping }),
    },
    missing: [],
  }));
  const before = {
    ...getRecordedEffect(event),
    actions: [],
    reason: `${failed.length} failed, and would start again`,
  };
  return {
    kind: "compared",
    before,
    after: { ...before, reason: null, actions },
    options: COMPARE_ALL,
  };
}

const byRecord =
  (after: Snapshot, store: Pick<Store, "list">): Compare =>
  async (event) => {
    if (event.outcome === "accepted") return restartRuns(event, store);
    const recorded = readRecordedHook(event, after);
    if (!recorded.ok) return { kind: "skipped", reason: recorded.reason };
    const effect = await getEffect({ ...recorded.input, credential: event.credential }, after);
    // A replay is meant: no earlier work holds it back, and it waits for no other events.
    const actions = effect.actions.map(({ action, missing }) => ({ action, missing }));
    return {
      kind: "compared",
      before: getRecordedEffect(event),
      after: { ...effect, actions },
      options: COMPARE_ALL,
    };
  };

/** Why an event is left out: the first of several that are the same is compared. */
function isRepeat({ duplicateOf, replayOf, outcome }: EventRecord): boolean {
  return outcome === "duplicate" || duplicateOf !== undefined || replayOf !== undefined;
}

/**
 * Says what a snapshot does with recorded events, newest first: compared with `before`, or without it with what was recorded of
 * each, as a replay would do them. Starts nothing and stores nothing; transform modules run, within their usual bounds. The
 * last line is the whole report.
 */
export async function* whatIf(
  before: Snapshot | undefined,
  after: Snapshot,
  events: AsyncIterable<EventRecord>,
  options: WhatIfOptions,
): AsyncGenerator<WhatIfLine, void> {
  const compare = before ? bySnapshots(before, after) : byRecord(after, options.store);
  const comparison = new Comparison(after, options);
  const pause = createPause();
  yield* comparison.lines();
  let shown = performance.now();
  for await (const event of events) {
    const isLeftOut = !options.repeats && isRepeat(event);
    const compared: Compared = isLeftOut
      ? { kind: "skipped", reason: "a repeat or a replay of another event" }
      : await compare(event);
    const isFirst = comparison.add(event, compared);
    const now = performance.now();
    if (isFirst || now - shown >= REPORT_MS) {
      shown = now;
      yield* comparison.lines();
    }
    await pause();
  }
  const end = await comparison.end();
  yield* comparison.lines();
  yield end;
}
