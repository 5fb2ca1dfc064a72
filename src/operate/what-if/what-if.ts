import { createPause } from "../../core/pause.ts";
import { WITHOUT_MAPPINGS } from "../../intake/authenticate.ts";
import { readRecordedHook } from "../../intake/replay.ts";
import { getEffect } from "../../intake/resolve.ts";
import type { ParsedHook, Snapshot } from "../../intake/types.ts";
import type { EventRecord, Reads } from "../../store/types.ts";
import { diffWords, type DiffPart } from "../edits/word-diff.ts";
import {
  CHANGE_TEXTS,
  compareEffects,
  UUID_END,
  type Change,
  type ChangeKind,
  type ChangeValues,
} from "./changes.ts";
import { readEvents, type Selection } from "./selection.ts";

const MAX_EXAMPLES = 3;

/** An event that a change concerns. For operators only: it quotes the event. */
export interface WhatIfExample {
  eventId: string;
  /** ISO 8601. */
  receivedAt: string;
  path: string;
  before: ChangeValues;
  after: ChangeValues;
  /** The message word by word, if it changed. */
  diff?: DiffPart[];
}

/** Events that change in the same way. */
export interface WhatIfGroup {
  kind: ChangeKind;
  /** The kind in words. */
  text: string;
  /** The mapping that takes them: after the change, or before it if none takes them then. */
  mapping: string | null;
  count: number;
  /** The newest ones. */
  examples: WhatIfExample[];
}

interface WhatIfOptions {
  store: Reads;
  /**
   * The events. Repeats and replays are compared if they are named by their ids; else they are skipped, since their first event is
   * compared.
   */
  selection: Selection;
  /** Milliseconds since the epoch: the end of the time that the events cover. */
  now: number;
}

/** The progress of a comparison. */
export type WhatIfCounts = Comparison["counts"];

/** The effect of a change of the mappings on recorded events. For operators only: its examples quote the events. */
export type WhatIfReport = Omit<WhatIfEnd, "type">;

/** A line of a comparison: how far it came, and at last the whole report. */
export type WhatIfLine = ({ type: "progress" } & WhatIfCounts) | WhatIfEnd;
export type WhatIfEnd = ReturnType<Comparison["end"]>;

function toExample(
  { id, receivedAt, path }: EventRecord,
  { before, after, kind }: Change,
): WhatIfExample {
  const example: WhatIfExample = {
    eventId: id,
    receivedAt: new Date(receivedAt).toISOString(),
    path,
    before,
    after,
  };
  const [old, next] = [before["message"] ?? before["marked"], after["message"] ?? after["marked"]];
  return kind === "text" && typeof old === "string" && typeof next === "string"
    ? { ...example, diff: diffWords(old, next) }
    : example;
}

/** The comparison of one event: the outcome that it would have, or the reason why nothing can be said about it. */
type Compared = { outcome: string; changes: readonly Change[] } | { skipped: string };

/** Adds one to the count of a name, which may come from an event. */
const addOne = (counts: Map<string, number>, name: string): unknown =>
  counts.set(name, (counts.get(name) ?? 0) + 1);

/** The counts of the events so far. */
class Comparison {
  readonly #options: WhatIfOptions;
  readonly #groups = new Map<string, WhatIfGroup>();
  readonly #skippedFor = new Map<string, number>();
  readonly #outcomes = new Map<string, number>();
  readonly counts = {
    /** Events that were looked at. */
    events: 0,
    /** Events about which nothing can be said. */
    skipped: 0,
    changed: 0,
    /** Events that would start a run that they did not start. */
    wouldRun: 0,
    wouldNotRun: 0,
  };
  #oldest = Infinity;

  constructor(options: WhatIfOptions) {
    this.#options = options;
  }

  add(event: EventRecord, compared: Compared): void {
    this.counts.events++;
    this.#oldest = Math.min(this.#oldest, event.receivedAt);
    if ("skipped" in compared) {
      this.counts.skipped++;
      addOne(this.#skippedFor, compared.skipped);
      return;
    }
    const { outcome, changes } = compared;
    addOne(this.#outcomes, outcome);
    if (changes.length === 0) return;
    this.#count(changes);
    this.#group(event, changes);
  }

  #count(changes: readonly Change[]): void {
    this.counts.changed++;
    if (changes.some(({ kind }) => kind === "starts")) this.counts.wouldRun++;
    if (changes.some(({ kind, action }) => (kind === "stops" || kind === "rejected") && action))
      this.counts.wouldNotRun++;
  }

  /** Adds the changes of one event, which counts once in each group. */
  #group(event: EventRecord, changes: readonly Change[]): void {
    const counted = new Set<WhatIfGroup>();
    for (const change of changes) {
      const { kind, mapping } = change;
      const key = `${kind} ${mapping ?? ""}`;
      const text = CHANGE_TEXTS[kind];
      const found = this.#groups.get(key) ?? { kind, text, mapping, count: 0, examples: [] };
      this.#groups.set(key, found);
      if (counted.has(found)) continue;
      counted.add(found);
      found.count++;
      if (found.examples.length < MAX_EXAMPLES) found.examples.push(toExample(event, change));
    }
  }

  /** The whole report. */
  end() {
    const { selection, now } = this.#options;
    const periodMs = Math.max(0, now - (selection.since ?? Math.min(this.#oldest, now)));
    return {
      type: "end" as const,
      ...this.counts,
      /** The time that the events cover, in milliseconds. */
      periodMs,
      /** Events by the outcome that they would have. Those that cannot change have the recorded one. */
      outcomes: Object.fromEntries(this.#outcomes),
      /** The number of events that were skipped, by the reason. */
      skippedFor: Object.fromEntries(this.#skippedFor),
      /** Largest first. */
      groups: [...this.#groups.values()].toSorted((a, b) => b.count - a.count),
    };
  }
}

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
