import { createPause } from "../../core/pause.ts";
import { WITHOUT_MAPPINGS } from "../../intake/authenticate.ts";
import { readRecordedHook } from "../../intake/replay.ts";
import type { ParsedHook, Snapshot } from "../../intake/types.ts";
import type { EventRecord } from "../../store/types.ts";
import { getEffect } from "../../intake/resolve.ts";
import { compareEffects } from "./changes.ts";
import { UUID_END } from "./effect.ts";
import { Comparison, type Compared, type WhatIfLine, type WhatIfOptions } from "./report.ts";
import { readEvents } from "./selection.ts";

export type * from "./report.ts";

/** Time between two lines of how far it came. */
const REPORT_MS = 100;

/** True if two session keys mean the same: those of runs that are given a session of their own end with a UUID by chance. */
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

/** Makes what compares one event. */
function createCompare(
  before: Snapshot,
  after: Snapshot,
): (event: EventRecord) => Promise<Compared> {
  const plan = createPlans(before, after);
  const isSameFormat = (path: string): boolean =>
    before.mappings.rules.get(path)?.body === after.mappings.rules.get(path)?.body;
  return async (event) => {
    const { path, credential } = event;
    const { isSame, unchanged } = plan({ path, byHookToken: credential === "hooks.token" });
    if (isSame) return { outcome: event.outcome, changes: [] };
    const recorded = readRecordedHook(event, before);
    const changed = isSameFormat(path) ? recorded : readRecordedHook(event, after);
    if (!recorded.ok) return { skipped: recorded.reason };
    if (!changed.ok) return { skipped: changed.reason };
    // Expressions that both sides have are evaluated once.
    const input = { ...recorded.input, credential, results: new Map() };
    const later = changed === recorded ? input : { ...changed.input, credential };
    const effects = [await getEffect(input, before), await getEffect(later, after)] as const;
    const options = { unchanged, isSameSession: isSameSession(input) };
    return { outcome: effects[1].outcome, changes: compareEffects(...effects, options) };
  };
}

/** True for an event that is left out: the first of several that are the same is compared. */
function isRepeat({ duplicateOf, replayOf, outcome }: EventRecord): boolean {
  return outcome === "duplicate" || duplicateOf !== undefined || replayOf !== undefined;
}

/**
 * Compares what two snapshots do with recorded events, newest first. Starts nothing and stores nothing; transform modules run,
 * within their usual bounds. The last line is the whole report.
 * @throws RouseError `not_found` or `usage` if an id of the selection does not name one event.
 */
export async function* whatIf(
  before: Snapshot,
  after: Snapshot,
  options: WhatIfOptions,
): AsyncGenerator<WhatIfLine, void> {
  const { store, selection } = options;
  const compare = createCompare(before, after);
  const comparison = new Comparison(options);
  const pause = createPause();
  yield { type: "progress", ...comparison.counts };
  let shown = performance.now();
  for await (const event of readEvents(store, selection)) {
    const isLeftOut = !selection.events && isRepeat(event);
    const compared: Compared = isLeftOut
      ? { skipped: "a repeat or a replay of another event" }
      : await compare(event);
    comparison.add(event, compared);
    if (performance.now() - shown >= REPORT_MS) {
      shown = performance.now();
      yield { type: "progress", ...comparison.counts };
    }
    await pause();
  }
  yield comparison.end();
}
