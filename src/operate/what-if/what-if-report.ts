import type { Snapshot } from "../../intake/types.ts";
import type { EventRecord, Store } from "../../store/types.ts";
import type { Effect } from "./effect.ts";
import {
  compareEffects,
  type Change,
  type ChangeKind,
  type ChangeValues,
  type CompareOptions,
} from "./what-if-changes.ts";
import { Rates, readTokenMedians, type TokenMedians } from "./what-if-rates.ts";
import { diffWords, type DiffPart } from "../edits/word-diff.ts";

const DAY_MS = 86_400_000;
const MAX_KEYS = 3;
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
  /** The mapping that takes them: after the change, or before it if none takes them then. */
  mapping: string | null;
  count: number;
  /** The newest ones. */
  examples: WhatIfExample[];
}

export interface WhatIfOptions {
  /**
   * The time that the events cover, in milliseconds since the epoch; default for `from`: the oldest event. Without it
   * nothing is said about rates: the events of a replay do not come again when they came.
   */
  period?: { from?: number | undefined; to: number };
  /** Has the recorded runs: those that a replay starts again, and the tokens that runs use. */
  store: Pick<Store, "list">;
  /** Called with every event of every group: more of them than a report keeps. */
  onExample?(group: WhatIfGroup, example: WhatIfExample): void;
  /** Compare repeats and replays too: the caller has named the events. Default: they are skipped, since their first event is compared. */
  repeats?: boolean;
}

/** How many more runs, and tokens, a day would take. */
export interface PerDay {
  /** Runs that would start and do not start today. */
  runs: number;
  /** Null if no recorded run says what one takes. */
  tokens: number | null;
  /** Whose recorded runs say it: those of the mappings that would start more, or those of all hooks. */
  tokensOf: "mapping" | "all";
}

/** What a change of the mappings would do, over recorded events. For operators only: its examples quote the events. */
export interface WhatIfReport {
  /** Events that were looked at. */
  events: number;
  /** The time that they cover, in milliseconds; null if no period was asked for. */
  periodMs: number | null;
  /** Events about which nothing can be said. */
  skipped: number;
  /** Why, with the number of events. */
  skippedFor: Record<string, number>;
  changed: number;
  /** Events by the outcome that they would have. Those that cannot change have the recorded one. */
  outcomes: Record<string, number>;
  /** Events that would start a run that they did not start. */
  wouldRun: number;
  wouldNotRun: number;
  /** Null if the events cover less than a day. */
  perDay: PerDay | null;
  /** Largest first. */
  groups: WhatIfGroup[];
  /** Limits that would be passed. */
  warnings: string[];
  /** What the comparison does not show. */
  notes: string[];
}

/**
 * A line of a comparison: how far it came, groups as they are found, and one `end` with the whole report. A later line of a
 * group has a larger count, and those of its examples that no earlier line has. For operators only: examples quote events.
 */
export type WhatIfLine =
  | ({ type: "progress" } & Pick<
      WhatIfReport,
      "events" | "skipped" | "changed" | "wouldRun" | "wouldNotRun"
    >)
  | ({ type: "group" } & WhatIfGroup)
  | WhatIfEnd;

/** The last line. */
export type WhatIfEnd = { type: "end" } & WhatIfReport;

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

/** How one event is compared. */
export type Compared =
  | { kind: "same"; effect: Effect }
  | { kind: "skipped"; reason: string }
  | { kind: "compared"; before: Effect; after: Effect; options: CompareOptions };

/** What is counted of the events so far. */
export class Comparison {
  readonly #options: WhatIfOptions;
  readonly #groups = new Map<string, WhatIfGroup>();
  /** What lines have of each group. */
  readonly #shown = new Map<WhatIfGroup, { count: number; examples: number }>();
  readonly #rates: Rates;
  readonly #skippedFor = new Map<string, number>();
  /** Runs that would start more, by mapping. */
  readonly #started = new Map<string, number>();
  readonly #batches = new Map<string, Set<string>>();
  readonly #counts = { events: 0, skipped: 0, changed: 0, wouldRun: 0, wouldNotRun: 0 };
  readonly #outcomes = new Map<string, number>();
  #oldest = Infinity;
  #medians: TokenMedians | undefined;

  constructor(after: Snapshot, options: WhatIfOptions) {
    this.#options = options;
    this.#rates = new Rates((mapping) => after.budgets.of(mapping));
  }

  /** Adds an event. Returns whether it is the first that changes. */
  add(event: EventRecord, compared: Compared): boolean {
    this.#counts.events++;
    this.#oldest = Math.min(this.#oldest, event.receivedAt);
    if (compared.kind === "skipped") {
      this.#skip(compared.reason);
      return false;
    }
    const { outcome } = compared.kind === "same" ? compared.effect : compared.after;
    this.#outcomes.set(outcome, (this.#outcomes.get(outcome) ?? 0) + 1);
    if (compared.kind === "same") {
      const { actions } = compared.effect;
      this.#rates.add(actions, actions, event.receivedAt);
      return false;
    }
    const { before, after, options } = compared;
    this.#rates.add(before.actions, after.actions, event.receivedAt);
    for (const { action, batchKey } of after.actions)
      if (batchKey !== undefined) this.#addBatch(action.mapping ?? "", batchKey);
    const changes = compareEffects(before, after, options);
    if (changes.length === 0) return false;
    this.#count(changes);
    this.#group(event, changes);
    return this.#counts.changed === 1;
  }

  #skip(reason: string): void {
    this.#counts.skipped++;
    this.#skippedFor.set(reason, (this.#skippedFor.get(reason) ?? 0) + 1);
  }

  #addBatch(mapping: string, key: string): void {
    const keys = this.#batches.get(mapping) ?? new Set();
    this.#batches.set(mapping, keys);
    if (keys.size <= MAX_KEYS) keys.add(key);
  }

  #count(changes: readonly Change[]): void {
    this.#counts.changed++;
    const starts = changes.filter(({ kind }) => kind === "starts");
    if (starts.length > 0) this.#counts.wouldRun++;
    if (changes.some(({ kind, action }) => (kind === "stops" || kind === "rejected") && action))
      this.#counts.wouldNotRun++;
    for (const { action, mapping } of starts) {
      if (action?.action.kind !== "run") continue;
      this.#started.set(mapping ?? "", (this.#started.get(mapping ?? "") ?? 0) + 1);
    }
  }

  /** Adds the changes of one event, which counts once in each group. */
  #group(event: EventRecord, changes: readonly Change[]): void {
    const counted = new Set<WhatIfGroup>();
    for (const change of changes) {
      const { kind, mapping } = change;
      const key = `${kind} ${mapping ?? ""}`;
      const found = this.#groups.get(key) ?? { kind, mapping, count: 0, examples: [] };
      this.#groups.set(key, found);
      if (counted.has(found)) continue;
      counted.add(found);
      found.count++;
      const isKept = found.examples.length < MAX_EXAMPLES;
      const { onExample } = this.#options;
      if (!isKept && !onExample) continue;
      const example = toExample(event, change);
      if (isKept) found.examples.push(example);
      onExample?.(found, example);
    }
  }

  #tokens(mapping: string): number | undefined {
    return this.#medians?.of.get(mapping) ?? this.#medians?.all;
  }

  #perDay(days: number): PerDay {
    const entries = [...this.#started];
    const runs = entries.reduce((sum, [, count]) => sum + count, 0) / days;
    const isKnown = entries.every(([mapping]) => this.#tokens(mapping) !== undefined);
    const tokens = isKnown
      ? entries.reduce(
          (sum, [mapping, count]) => sum + (count / days) * (this.#tokens(mapping) ?? 0),
          0,
        )
      : null;
    return {
      runs,
      tokens,
      tokensOf: entries.every(([mapping]) => this.#medians?.of.has(mapping)) ? "mapping" : "all",
    };
  }

  #notes(): string[] {
    const batches = [...this.#batches].map(([mapping, keys]) => {
      const named = [...keys].slice(0, MAX_KEYS).map((key) => JSON.stringify(key.slice(0, 100)));
      return `${mapping} would collect its events into runs by ${named.join(", ")}${keys.size > MAX_KEYS ? " and further keys" : ""}`;
    });
    return [
      `not simulated: duplicates, limits and windows of \`coalesce\`${batches.length === 0 ? "" : ` (${batches.join("; ")})`}`,
    ];
  }

  /** The groups so far, largest first. */
  #list(): WhatIfGroup[] {
    return [...this.#groups.values()].toSorted((a, b) => b.count - a.count);
  }

  /** Lines of what no earlier line has. */
  *lines(): Generator<WhatIfLine> {
    for (const group of this.#list()) {
      const { count, examples } = group;
      const shown = this.#shown.get(group) ?? { count: 0, examples: 0 };
      if (count === shown.count) continue;
      this.#shown.set(group, { count, examples: examples.length });
      yield { type: "group", ...group, examples: examples.slice(shown.examples) };
    }
    yield { type: "progress", ...this.#counts };
  }

  /** The whole report. Reads what runs have used, if it says something about rates. */
  async end(): Promise<WhatIfEnd> {
    const { period, store } = this.#options;
    const mappings = [...this.#started.keys(), ...this.#rates.mappings()];
    if (period && mappings.length > 0) this.#medians = await readTokenMedians(store, mappings);
    const periodMs = period
      ? Math.max(0, period.to - (period.from ?? Math.min(this.#oldest, period.to)))
      : null;
    const days = (periodMs ?? 0) / DAY_MS;
    return {
      type: "end",
      ...this.#counts,
      periodMs,
      outcomes: Object.fromEntries(this.#outcomes),
      skippedFor: Object.fromEntries(this.#skippedFor),
      perDay: days >= 1 ? this.#perDay(days) : null,
      groups: this.#list(),
      warnings: period ? this.#rates.warnings(days, (mapping) => this.#tokens(mapping)) : [],
      notes: this.#notes(),
    };
  }
}
