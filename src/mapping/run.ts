import type { CompiledMapping } from "./compiled.ts";
import { createCpuLimit, SYSTEM_CLOCK } from "./jsonata/cpu-time.ts";
import type { Failure } from "../core/errors.ts";
import { oneLine, plainText } from "../core/text.ts";
import { markBatched, makeDrafts, toFailed, type Step } from "./render.ts";
import { createMatchIndex, findLoop, isFailed, isInShadow, type MatchIndex } from "./match.ts";
import { isWanted } from "./presets.ts";
import { isOnPath, traceMappings } from "./trace.ts";
import {
  DebugNotes,
  NOTES,
  RESULTS,
  withEvents,
  type TemplateContext,
} from "./template-context.ts";
import type {
  Debugged,
  DecidedOutcome,
  DraftResult,
  EvaluatedOutcome,
  MappingInput,
  MappingOutcome,
  MappingSet,
  Nearest,
  PathRules,
} from "./types.ts";

export interface SetParts {
  mappings: readonly CompiledMapping[];
  rules: ReadonlyMap<string, PathRules>;
  files: readonly string[];
  documents: readonly string[];
  modules: ReadonlyMap<string, readonly string[]>;
  maxActions: number;
}

function toTemplateContext(input: MappingInput): TemplateContext {
  const { payload, headers, query, path, now } = input;
  return { payload, headers, query, path, now };
}

function tooMany(mapping: string, count: number, most: number): Extract<Step, DecidedOutcome> {
  const message = `the event makes ${count} actions, more than hooks.maxActions (${most}); nothing was run`;
  return { kind: "rejected", mapping, failure: { code: "too_many_actions", message } };
}

/** One action for each item. Items stand alone: what fails for one is its result and stops no other. */
async function eachItem(
  mapping: CompiledMapping,
  scope: TemplateContext,
  maxActions: number,
): Promise<Step> {
  const { id } = mapping.config;
  const list = await (mapping.forEach as NonNullable<typeof mapping.forEach>).evaluate(scope);
  if (!list.ok) return toFailed(id, `forEach: ${list.message}`);
  const items = list.value === undefined || list.value === null ? [] : [list.value].flat();
  if (items.length > maxActions) return tooMany(id, items.length, maxActions);
  const results: DraftResult[] = [];
  for (const [index, item] of items.entries()) {
    const pending = makeDrafts(mapping, { ...scope, item, index });
    const step = pending instanceof Promise ? await pending : pending;
    if (step.kind === "results") results.push(...step.results);
    else if (step.kind !== "skipped")
      results.push({ ok: false, mapping: id, failure: step.failure });
  }
  if (results.length === 0)
    return {
      kind: "skipped",
      reason: items.length === 0 ? "forEach found no items" : "every item was skipped",
    };
  return { kind: "results", results, list: true };
}

/** Returns the reason that an event is left out, if only some events of a preset are wanted. */
async function unwanted(
  { event, events, config }: CompiledMapping,
  scope: TemplateContext,
): Promise<Step | undefined> {
  if (!events) return undefined;
  const rendered = await event?.render(scope);
  if (rendered && !rendered.ok) return toFailed(config.id, `event: ${rendered.message}`);
  const name = oneLine(plainText(rendered?.parts ?? [])).slice(0, 100);
  return isWanted(name, events)
    ? undefined
    : { kind: "skipped", reason: `the event "${name}" is not among the preset's \`events\`` };
}

async function runMapping(
  mapping: CompiledMapping,
  given: TemplateContext,
  maxActions: number,
): Promise<Step> {
  const scope = mapping.coalesceKey ? withEvents(given, [given.payload]) : given;
  const left = await unwanted(mapping, scope);
  if (left) return left;
  const issues = mapping.validate?.(scope.payload) ?? [];
  const [first] = issues;
  if (first) {
    const message = `the body is not as the mapping's schema says: ${`${first.path} ${first.message}`.trim()}`;
    const failure: Failure = { code: "validation_failed", message, issues };
    return { kind: "rejected", mapping: mapping.config.id, failure };
  }
  const step = await (mapping.forEach
    ? eachItem(mapping, scope, maxActions)
    : makeDrafts(mapping, scope));
  if (step.kind !== "results") return step;
  return step.results.length > maxActions
    ? tooMany(mapping.config.id, step.results.length, maxActions)
    : markBatched(mapping, scope, step);
}

/** Runs mappings, and adds what their code did to the outcome. */
async function withNotes<T extends MappingOutcome>(
  run: (notes: DebugNotes) => Promise<T>,
): Promise<Debugged<T>> {
  const notes = new DebugNotes();
  const outcome = await run(notes);
  const debug = notes.result();
  return debug ? { ...outcome, debug } : outcome;
}

/** Runs a mapping on events that it has collected. */
async function combineEvents(
  mapping: CompiledMapping,
  inputs: readonly MappingInput[],
  notes: DebugNotes,
): Promise<MappingOutcome> {
  const { id } = mapping.config;
  notes.mapping = id;
  const payloads = inputs.map((input) => input.payload);
  const scope = { ...toTemplateContext(inputs.at(-1) as MappingInput), [NOTES]: notes };
  const step = await makeDrafts(mapping, withEvents(scope, payloads));
  if (step.kind === "results") return { ...step, kind: "actions", mapping: id };
  return step.kind === "skipped" ? { ...step, mapping: id } : step;
}

/** Mappings that are looked at for the nearest one, and the processor time for it in milliseconds: the sender waits for its answer. */
const MAX_NEAREST = 200;
const MAX_NEAREST_MS = 5;

/** The first condition that does not hold, and how many do. `when` counts only if it was evaluated for the event before. */
function countHeld(
  { match: { checks, when }, config }: CompiledMapping,
  scope: TemplateContext,
  isOver: () => boolean,
): { held: number; failed: string | undefined } {
  let held = 0;
  let failed: string | undefined;
  for (const [condition, check] of checks) {
    if (isOver()) return { held, failed: undefined };
    if (check.test(scope) === true) held++;
    else failed ??= condition;
  }
  const known = failed === undefined ? when?.known(scope) : undefined;
  if (known?.ok && known.value === true) held++;
  else if (known) failed = "match.when";
  if (!config.enabled) failed ??= "enabled";
  return { held, failed };
}

/**
 * Finds the mapping of which most conditions held, among those that can be looked at in a short time. Evaluates no expression
 * that matching has not evaluated.
 */
function findNearest(
  mappings: readonly CompiledMapping[],
  scope: TemplateContext,
): Nearest | undefined {
  const limit = createCpuLimit(MAX_NEAREST_MS, SYSTEM_CLOCK);
  limit.start();
  let best: (Nearest & { held: number }) | undefined;
  const isOver = (): boolean => best !== undefined && limit.spent() > MAX_NEAREST_MS;
  for (const mapping of mappings.slice(0, MAX_NEAREST)) {
    const { held, failed } = countHeld(mapping, scope, isOver);
    if (failed !== undefined && (!best || held > best.held))
      best = { mapping: mapping.config.id, condition: failed, held };
    if (isOver()) break;
  }
  return best && { mapping: best.mapping, condition: best.condition };
}

/** Returns what looks up the mappings of a hook: those of its path, and for the hook token those of every path. */
function createLookup(
  mappings: readonly CompiledMapping[],
  paths: Iterable<string>,
): (request: Pick<MappingInput, "path" | "byHookToken">) => MatchIndex {
  const onPath = new Map(
    [...paths].map(
      (path) =>
        [path, mappings.filter((mapping) => mapping.match.paths?.includes(path) ?? false)] as const,
    ),
  );
  const anywhere = mappings.filter((mapping) => mapping.match.paths === undefined);
  const indexes = new Map<string, MatchIndex>();
  return ({ path, byHookToken }) => {
    const name = `${byHookToken ? "*" : ""}${onPath.has(path) ? path : ""}`;
    let index = indexes.get(name);
    if (!index) {
      const own = onPath.get(path) ?? [];
      index = createMatchIndex(
        byHookToken ? [...own, ...anywhere].toSorted((a, b) => a.order - b.order) : own,
      );
      indexes.set(name, index);
    }
    return index;
  };
}

/** Evaluates the mappings for one event, one after the other. */
class EventRun {
  /** The outcomes that mappings in shadow would have had. */
  readonly shadow: DecidedOutcome[] = [];
  readonly #scope: TemplateContext;
  readonly #maxActions: number;
  readonly #results: DraftResult[] = [];
  #first: string | undefined;
  #isList = false;
  #skipped: string | undefined;

  constructor(scope: TemplateContext, maxActions: number) {
    this.#scope = scope;
    this.#maxActions = maxActions;
  }

  /** Runs mappings in their order until the event is decided. Undefined if none matched. */
  async decide(
    candidates: readonly CompiledMapping[],
    input: MappingInput,
    notes: DebugNotes,
  ): Promise<DecidedOutcome | undefined> {
    for (const mapping of candidates) {
      if (!mapping.config.enabled) continue;
      notes.mapping = mapping.config.id;
      if (isInShadow(mapping, input)) {
        await this.#addShadow(mapping);
        continue;
      }
      const next = await this.#add(mapping);
      if (next === "last") break;
      if (next !== "next") return next;
    }
    return this.#finish();
  }

  /** Notes what a mapping in shadow would have made of the event. The others are tried as if it were not there. */
  async #addShadow(mapping: CompiledMapping): Promise<void> {
    const alone = new EventRun(this.#scope, this.#maxActions);
    const next = await alone.#add(mapping);
    const outcome = typeof next === "string" ? alone.#finish() : next;
    if (outcome) this.shadow.push(outcome);
  }

  /** Runs a mapping if its conditions hold. Returns the event's outcome if that is decided by it, else whether others may follow. */
  async #add(mapping: CompiledMapping): Promise<DecidedOutcome | "next" | "last"> {
    const { id, continue: continues } = mapping.config;
    const echo = this.#isList ? undefined : findLoop(mapping, this.#scope);
    if (echo !== undefined) return { kind: "skipped", mapping: id, reason: echo, echo: true };
    const pending = mapping.match.test(this.#scope);
    const truth = pending instanceof Promise ? await pending : pending;
    if (isFailed(truth))
      return this.#end(toFailed(id, `match.when: ${truth.failed}`), id, continues);
    if (truth !== true) return "next";
    this.#first ??= id;
    this.#isList ||= continues;
    const step = await runMapping(mapping, this.#scope, this.#maxActions);
    if (step.kind === "results") {
      this.#results.push(...step.results);
      this.#isList ||= step.list;
    } else if (step.kind === "skipped") this.#skipped ??= step.reason;
    else return this.#end(step, id, continues);
    return continues ? "next" : "last";
  }

  /** Returns the outcome of all mappings; undefined if none matched. */
  #finish(): DecidedOutcome | undefined {
    const [mapping, results] = [this.#first, this.#results];
    if (mapping === undefined) return undefined;
    if (results.length === 0)
      return { kind: "skipped", mapping, reason: this.#skipped ?? "nothing to do" };
    if (results.length > this.#maxActions)
      return tooMany(mapping, results.length, this.#maxActions);
    return { kind: "actions", mapping, list: this.#isList || results.length > 1, results };
  }

  /** Each of several mappings is independent: its error is its own result, and does not change the results of the other mappings. */
  #end(
    outcome: DecidedOutcome,
    mapping: string,
    continues: boolean,
  ): DecidedOutcome | "next" | "last" {
    if (!this.#isList || !("failure" in outcome) || outcome.failure.code === "too_many_actions")
      return outcome;
    this.#results.push({ ok: false, mapping, failure: outcome.failure });
    return continues && outcome.failure.code !== "mapping_failed" ? "next" : "last";
  }
}

/** Makes the set of a snapshot's mappings. */
export function createMappingSet({ mappings, rules, maxActions, ...files }: SetParts): MappingSet {
  const byId = new Map(mappings.map((mapping) => [mapping.config.id, mapping]));
  const isAnywhere = mappings.some((mapping) => mapping.match.paths === undefined);
  const lookup = createLookup(mappings, rules.keys());

  const runEach = async (
    candidates: readonly CompiledMapping[],
    input: MappingInput,
    notes: DebugNotes,
  ): Promise<EvaluatedOutcome> => {
    const scope = { ...toTemplateContext(input), [RESULTS]: input.results ?? new Map() };
    const run = new EventRun({ ...scope, [NOTES]: notes }, maxActions);
    const decided = await run.decide(candidates, input, notes);
    const { shadow } = run;
    const outcome: EvaluatedOutcome = {
      ...(decided ?? { kind: "unmatched" }),
      ...(shadow.length > 0 && { shadow }),
    };
    if (outcome.kind !== "unmatched" && (outcome.kind !== "skipped" || outcome.echo))
      return outcome;
    const nearest = findNearest(lookup(input).all, scope);
    return nearest ? { ...outcome, nearest } : outcome;
  };

  const runAll = (
    candidates: readonly CompiledMapping[],
    input: MappingInput,
  ): Promise<EvaluatedOutcome> => withNotes((notes) => runEach(candidates, input, notes));

  return {
    mappings: mappings.map((mapping) => mapping.info),
    configs: mappings.map(({ config, info }) => ({ config, info })),
    paths: [...rules.values()],
    rules,
    owns: ({ path, byHookToken }) => rules.has(path) || (byHookToken && isAnywhere),
    ...files,
    run: (input) => runAll(lookup(input).candidates(input.payload), input),
    async combine(id, inputs) {
      const mapping = byId.get(id);
      return mapping && withNotes((notes) => combineEvents(mapping, inputs, notes));
    },
    settings: (id) => byId.get(id)?.settings,
    written: (request) =>
      new Map(lookup(request).all.map(({ config, written }) => [config.id, written])),
    budgets: [
      ...new Map(
        mappings.flatMap(({ settings: { budget } }) => (budget ? [[budget.scope, budget]] : [])),
      ).values(),
    ],
    async explain(given, only) {
      const input = { ...given, live: only ?? given.live };
      const chosen =
        only === undefined
          ? lookup(input).all
          : mappings.filter((mapping) => mapping.config.id === only);
      const onPath = chosen.filter((mapping) => isOnPath(mapping, input));
      return {
        traces: await traceMappings(chosen, input, toTemplateContext(input)),
        outcome: await runAll(onPath, input),
      };
    },
  };
}
