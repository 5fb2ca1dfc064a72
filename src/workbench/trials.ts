import {
  findDraft,
  isOfDraft,
  planDraft,
  type Draft,
  type DraftPlan,
  type MappingPlaces,
} from "./drafts.ts";
import { RouseError, safeError, type Issue } from "../core/errors.ts";
import { readMonotonic, type Clock } from "../core/clock.ts";
import type { FileTexts } from "../core/files.ts";
import type { Logger } from "../core/log.ts";
import type { Snapshot } from "../intake/types.ts";
import type { MappingInput, MappingOutcome } from "../mapping/types.ts";
import { checkDraft } from "../runs/validate.ts";

/** Events that wait for the drafts. Further ones are counted and left out. */
const MAX_WAITING = 100;
const MAX_WAITING_BYTES = 8 * 2 ** 20;
/** After an evaluation the drafts rest so many times as long as it took: hooks come first. */
const REST = 4;

/** What a draft would have done with the hooks that came in since its trial began. In memory only. */
export interface TrialCounts {
  /** Hooks that it was evaluated for. */
  events: number;
  /** Hooks that a mapping of the draft would have taken. */
  matched: number;
  runs: number;
  wakes: number;
  skipped: number;
  /** Actions that would have been refused, and hooks for which the draft would have failed. */
  refused: number;
  /** Hooks that were left out, since too many waited. */
  dropped: number;
}

/** A trial: a draft that is evaluated beside live traffic. Times are in ISO 8601. */
export interface Trial extends TrialCounts {
  draft: string;
  since: string;
  /** Null while it goes on. */
  ended: { at: string; reason: string } | null;
  /** The last hook that a mapping of the draft would have taken. */
  last: { eventId: string; at: string } | null;
}

/** A snapshot with a draft in it, which goes away when the trial ends. */
export type TrialSnapshot =
  | { ok: true; snapshot: Snapshot; dispose(): Promise<void> }
  | { ok: false; issues: Issue[] };

export interface TrialDeps {
  places(): MappingPlaces;
  /** Builds a snapshot whose modules and expressions run apart from those of live hooks. */
  build(texts: FileTexts): Promise<TrialSnapshot>;
  clock: Clock;
  log: Logger;
}

export interface Trials {
  /**
   * Starts a trial, or starts it again with the draft's current text.
   * @throws RouseError `not_found`, or `config_invalid` with the problems of the draft.
   */
  start(name: string): Promise<Trial>;
  /** Ends a trial and forgets its counts. Throws `not_found` if there is none. */
  stop(name: string): Promise<Trial>;
  list(): Trial[];
  /** Notes a hook that is being answered, with the length of its body. Returns immediately; the hook is evaluated later. */
  observe(eventId: string, input: MappingInput, bytes: number): void;
  /** Builds the snapshots again after the config has changed. */
  refresh(): void;
  close(): Promise<void>;
}

interface RunningTrial {
  shown: Trial;
  draft: Draft;
  plan: DraftPlan;
  built: Extract<TrialSnapshot, { ok: true }> | undefined;
  /** The mappings of the draft. */
  ids: ReadonlySet<string>;
}

interface Waiting {
  eventId: string;
  input: MappingInput;
  /** The length of its body. */
  bytes: number;
}

/** Counts what the draft's own mappings make of a hook. Returns whether one of them would have taken it. */
function count(
  { shown, ids }: RunningTrial,
  outcome: MappingOutcome,
  input: MappingInput,
  snapshot: Snapshot,
): boolean {
  if (outcome.kind === "unmatched") return false;
  if (outcome.kind !== "actions") {
    if (!ids.has(outcome.mapping)) return false;
    shown[outcome.kind === "skipped" ? "skipped" : "refused"]++;
    return true;
  }
  const own = outcome.results.filter((result) =>
    ids.has(result.ok ? result.draft.mapping : result.mapping),
  );
  for (const result of own) {
    const draft = result.ok ? result.draft : undefined;
    const fields = draft?.fields as Record<string, unknown>;
    if (
      !draft ||
      !checkDraft({ ...draft, fields }, { hook: input.path, now: input.now }, snapshot).ok
    )
      shown.refused++;
    else if (draft.shadow) shown.skipped++;
    else shown[draft.action === "agent" ? "runs" : "wakes"]++;
  }
  return own.length > 0 || ids.has(outcome.mapping);
}

async function evaluate(trial: RunningTrial, { eventId, input }: Waiting): Promise<void> {
  const { shown, built } = trial;
  if (!built) return;
  const { snapshot } = built;
  const outcome = await snapshot.mappings.run(input);
  shown.events++;
  if (!count(trial, outcome, input, snapshot)) return;
  shown.matched++;
  shown.last = { eventId, at: new Date(input.now).toISOString() };
}

class RunningTrials implements Trials {
  readonly #deps: TrialDeps;
  readonly #trials = new Map<string, RunningTrial>();
  readonly #waiting: Waiting[] = [];
  readonly #closed = new AbortController();
  #working: Promise<void> | undefined;

  constructor(deps: TrialDeps) {
    this.#deps = deps;
  }

  async #build(
    name: string,
    draft: Draft,
  ): Promise<Pick<RunningTrial, "draft" | "plan" | "built" | "ids">> {
    const plan = planDraft(draft, this.#deps.places());
    const built = await this.#deps.build(new Map([[plan.file, plan.after]]));
    if (!built.ok) {
      const message = `the draft "${name}" cannot be tried: it has problems (\`rouse drafts list\`)`;
      throw new RouseError({ code: "config_invalid", message, issues: built.issues });
    }
    const own = built.snapshot.mappings.mappings.filter((mapping) =>
      isOfDraft(mapping, draft, plan),
    );
    return { draft, plan, built, ids: new Set(own.map(({ id }) => id)) };
  }

  async start(name: string): Promise<Trial> {
    const draft = findDraft(name, this.#deps.places().mappingsDir);
    const parts = await this.#build(name, draft);
    await this.#dispose(this.#trials.get(name));
    const counts: TrialCounts = {
      events: 0,
      matched: 0,
      runs: 0,
      wakes: 0,
      skipped: 0,
      refused: 0,
      dropped: 0,
    };
    const since = new Date(this.#deps.clock.now()).toISOString();
    const shown: Trial = { draft: name, since, ended: null, ...counts, last: null };
    this.#trials.set(name, { shown, ...parts });
    return { ...shown };
  }

  async stop(name: string): Promise<Trial> {
    const trial = this.#trials.get(name);
    if (!trial)
      throw new RouseError({
        code: "not_found",
        message: `the draft "${name}" is not being tried`,
      });
    this.#trials.delete(name);
    await this.#dispose(trial);
    return { ...trial.shown };
  }

  list(): Trial[] {
    return [...this.#trials.values()].map(({ shown }) => ({ ...shown }));
  }

  observe(eventId: string, input: MappingInput, bytes: number): void {
    if (this.#trials.size === 0 || this.#closed.signal.aborted) return;
    const waitingBytes = this.#waiting.reduce((sum, waiting) => sum + waiting.bytes, bytes);
    if (this.#waiting.length >= MAX_WAITING || waitingBytes > MAX_WAITING_BYTES) {
      for (const { shown, built } of this.#trials.values()) if (built) shown.dropped++;
      return;
    }
    this.#waiting.push({ eventId, input, bytes });
    this.#working ??= this.#work();
  }

  async #work(): Promise<void> {
    const { clock, log } = this.#deps;
    const { signal } = this.#closed;
    for (let waiting = await this.#next(); waiting; waiting = await this.#next()) {
      const begun = readMonotonic(clock);
      for (const trial of this.#trials.values())
        await evaluate(trial, waiting).catch((error: unknown) =>
          log.warn({ err: safeError(error) }, "a draft could not be evaluated"),
        );
      const took = readMonotonic(clock) - begun;
      if (took > 0) await clock.sleep(REST * took, signal);
      if (signal.aborted) return;
    }
    this.#working = undefined;
  }

  /** The next hook, once what answers hooks has had its turn. */
  async #next(): Promise<Waiting | undefined> {
    await new Promise((done) => setImmediate(done));
    return this.#waiting.shift();
  }

  refresh(): void {
    for (const trial of this.#trials.values()) if (trial.built) void this.#refresh(trial);
  }

  async #refresh(trial: RunningTrial): Promise<void> {
    const { shown } = trial;
    try {
      const draft = findDraft(shown.draft, this.#deps.places().mappingsDir);
      if (draft.text !== trial.draft.text)
        throw new RouseError({
          code: "conflict",
          message: "the draft was changed: start its trial again",
        });
      const parts = await this.#build(shown.draft, draft);
      if (parts.plan.landed)
        throw new RouseError({ code: "conflict", message: "the draft has landed" });
      await this.#dispose(trial);
      Object.assign(trial, parts);
      if (this.#trials.get(shown.draft) !== trial) await this.#dispose(trial);
    } catch (error) {
      await this.#dispose(trial);
      const reason = error instanceof RouseError ? error.message : "the config could not be read";
      shown.ended = { at: new Date(this.#deps.clock.now()).toISOString(), reason };
    }
  }

  async #dispose(trial: RunningTrial | undefined): Promise<void> {
    const built = trial?.built;
    if (!trial || !built) return;
    trial.built = undefined;
    await built.dispose();
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.#waiting.length = 0;
    for (const trial of this.#trials.values()) await this.#dispose(trial);
    await this.#working;
  }
}

/** Creates what evaluates drafts beside live traffic. It starts no run, sends nothing and stores nothing. */
export function createTrials(deps: TrialDeps): Trials {
  return new RunningTrials(deps);
}
