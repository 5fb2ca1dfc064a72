import type { CompiledMapping } from "./compiled.ts";
import { oneLine, plainText } from "../core/text.ts";
import { markCollected } from "./collect.ts";
import { DebugNotes } from "./debug.ts";
import { echoReason } from "./echo.ts";
import { makeDrafts } from "./drafts.ts";
import { createLookup, type Lookup } from "./lookup.ts";
import type { MatchFailed, Truth } from "./match.ts";
import { isWanted } from "./presets.ts";
import { NOTES, withEvents, type Scope } from "./scope.ts";
import type {
  ConditionTrace,
  Debugged,
  DraftResult,
  MappingInput,
  MappingOutcome,
  MappingSet,
  MappingTrace,
  Nearest,
  PathRules,
} from "./types.ts";

export interface SetParts {
  mappings: readonly CompiledMapping[];
  rules: ReadonlyMap<string, PathRules>;
  files: readonly string[];
  maxActions: number;
}

type Step =
  | { kind: "results"; results: DraftResult[]; list: boolean }
  | { kind: "skipped"; reason: string }
  | { kind: "end"; outcome: MappingOutcome };

function scopeOf(input: MappingInput): Scope {
  const { payload, headers, query, path, now } = input;
  return { payload, headers, query, path, now };
}

const tooMany = (mapping: string, count: number, most: number): Step => ({
  kind: "end",
  outcome: {
    kind: "rejected",
    mapping,
    failure: {
      code: "too_many_actions",
      message: `the event makes ${count} actions, more than hooks.maxActions (${most}); nothing was run`,
    },
  },
});

async function oneScope(mapping: CompiledMapping, scope: Scope): Promise<Step> {
  const pending = makeDrafts(mapping, scope);
  const made = pending instanceof Promise ? await pending : pending;
  const { id } = mapping.config;
  if (!made.ok) {
    const outcome: MappingOutcome = { kind: made.kind, mapping: id, failure: made.failure };
    if (made.missing && outcome.kind === "rejected") outcome.missing = made.missing;
    return { kind: "end", outcome };
  }
  if ("skipped" in made) return { kind: "skipped", reason: "the transform gave null" };
  if (made.results.length === 0) return { kind: "skipped", reason: "the transform gave an empty list" };
  return { kind: "results", results: made.results, list: made.list };
}

/** One action for each item. Items stand alone: what fails for one is its result and stops no other. */
async function eachItem(mapping: CompiledMapping, scope: Scope, maxActions: number): Promise<Step> {
  const { id } = mapping.config;
  const list = await (mapping.forEach as NonNullable<typeof mapping.forEach>).evaluate(scope);
  if (!list.ok)
    return {
      kind: "end",
      outcome: { kind: "failed", mapping: id, failure: { code: "mapping_failed", message: `forEach: ${list.message}` } },
    };
  const items = list.value === undefined || list.value === null ? [] : Array.isArray(list.value) ? (list.value as unknown[]) : [list.value];
  if (items.length > maxActions) return tooMany(id, items.length, maxActions);
  const results: DraftResult[] = [];
  for (const [index, item] of items.entries()) {
    const step = await oneScope(mapping, { ...scope, item, index });
    if (step.kind === "results") results.push(...step.results);
    else if (step.kind === "end" && (step.outcome.kind === "rejected" || step.outcome.kind === "failed"))
      results.push({ ok: false, mapping: id, failure: step.outcome.failure });
  }
  if (results.length === 0) return { kind: "skipped", reason: items.length === 0 ? "forEach found no items" : "every item was skipped" };
  return { kind: "results", results, list: true };
}

/** Why an event is left out, where only some of a preset's are wanted. */
async function unwanted({ event, events, config }: CompiledMapping, scope: Scope): Promise<Step | undefined> {
  if (!events) return undefined;
  const rendered = await event?.render(scope);
  if (rendered && !rendered.ok) {
    const failure = { code: "mapping_failed" as const, message: `event: ${rendered.message}` };
    return { kind: "end", outcome: { kind: "failed", mapping: config.id, failure } };
  }
  const name = oneLine(plainText(rendered?.parts ?? [])).slice(0, 100);
  return isWanted(name, events) ? undefined : { kind: "skipped", reason: `the event "${name}" is not among the preset's \`events\`` };
}

async function runMapping(mapping: CompiledMapping, given: Scope, maxActions: number): Promise<Step> {
  const scope = mapping.coalesceKey ? withEvents(given, [given.payload]) : given;
  const left = await unwanted(mapping, scope);
  if (left) return left;
  const issues = mapping.validate?.(scope.payload) ?? [];
  if (issues.length > 0) {
    const failure = { code: "validation_failed" as const, message: "the body is not as the mapping's schema says", issues };
    return { kind: "end", outcome: { kind: "rejected", mapping: mapping.config.id, failure } };
  }
  const step = await (mapping.forEach ? eachItem(mapping, scope, maxActions) : oneScope(mapping, scope));
  if (step.kind !== "results") return step;
  if (step.results.length > maxActions) return tooMany(mapping.config.id, step.results.length, maxActions);
  const marked = await markCollected(mapping, scope, step.results);
  return marked.ok ? { ...step, results: marked.results } : { kind: "end", outcome: marked.outcome };
}

/** Runs mappings, and adds what their code did to the outcome. */
async function withNotes(run: (notes: DebugNotes) => Promise<MappingOutcome>): Promise<Debugged<MappingOutcome>> {
  const notes = new DebugNotes();
  const outcome = await run(notes);
  const debug = notes.result();
  return debug ? { ...outcome, debug } : outcome;
}

/** What a mapping makes of events that it has collected. */
async function combineEvents(mapping: CompiledMapping, inputs: readonly MappingInput[], notes: DebugNotes): Promise<MappingOutcome> {
  const { id } = mapping.config;
  notes.mapping = id;
  const payloads = inputs.map((input) => input.payload);
  const scope = { ...scopeOf(inputs.at(-1) as MappingInput), [NOTES]: notes };
  const step = await oneScope(mapping, withEvents(scope, payloads));
  if (step.kind === "end") return step.outcome;
  if (step.kind === "skipped") return { kind: "skipped", mapping: id, reason: step.reason };
  return { kind: "actions", mapping: id, list: step.list, results: step.results };
}

const isFailed = (truth: Truth | MatchFailed): truth is MatchFailed => typeof truth === "object";

/** How the conditions of a mapping come out, besides its path; a disabled mapping has one more, which fails. */
async function traceMapping({ match, config, at }: CompiledMapping, scope: Scope): Promise<ConditionTrace[]> {
  const traces = (await match.trace(scope)).map((trace) => ({ ...trace, condition: trace.condition.slice(at.length + 1) }));
  return config.enabled ? traces : [...traces, { condition: "enabled", result: false }];
}

/** Finds the mapping of which most conditions held. */
async function findNearest(mappings: readonly CompiledMapping[], scope: Scope): Promise<Nearest | undefined> {
  let best: (Nearest & { held: number }) | undefined;
  for (const mapping of mappings.slice(0, 200)) {
    const traces = await traceMapping(mapping, scope);
    const held = traces.filter((trace) => trace.result === true).length;
    const failed = traces.find((trace) => trace.result !== true);
    if (failed && (!best || held > best.held)) best = { mapping: mapping.config.id, condition: failed.condition, held };
  }
  return best && { mapping: best.mapping, condition: best.condition };
}

/** Makes the set of a snapshot's mappings. */
export function createMappingSet({ mappings, rules, files, maxActions }: SetParts): MappingSet {
  const onPath = new Map<string, CompiledMapping[]>();
  const byId = new Map(mappings.map((mapping) => [mapping.config.id, mapping]));
  const anywhere = mappings.filter((mapping) => mapping.match.paths === undefined);
  for (const path of rules.keys())
    onPath.set(
      path,
      mappings.filter((mapping) => mapping.match.paths?.includes(path) ?? false),
    );
  const lookups = new Map<string, Lookup>();
  const lookupFor = (input: MappingInput): Lookup => {
    const name = `${input.byHookToken ? "*" : ""}${onPath.has(input.path) ? input.path : ""}`;
    let lookup = lookups.get(name);
    if (!lookup) {
      const own = onPath.get(input.path) ?? [];
      lookup = createLookup(input.byHookToken ? [...own, ...anywhere].toSorted((a, b) => a.order - b.order) : own);
      lookups.set(name, lookup);
    }
    return lookup;
  };

  const runEach = async (candidates: readonly CompiledMapping[], input: MappingInput, notes: DebugNotes): Promise<MappingOutcome> => {
    const scope = { ...scopeOf(input), [NOTES]: notes };
    const results: DraftResult[] = [];
    let first: string | undefined;
    let list = false;
    let skipped: string | undefined;
    for (const mapping of candidates) {
      if (!mapping.config.enabled) continue;
      notes.mapping = mapping.config.id;
      const echo = list ? undefined : echoReason(mapping, scope);
      if (echo !== undefined) return { kind: "skipped", mapping: mapping.config.id, reason: echo, echo: true };
      const pending = mapping.match.test(scope);
      const truth = pending instanceof Promise ? await pending : pending;
      const { id } = mapping.config;
      if (isFailed(truth)) {
        const failure = { code: "mapping_failed" as const, message: `match.when: ${truth.failed}` };
        if (!list) return { kind: "failed", mapping: id, failure };
        results.push({ ok: false, mapping: id, failure });
        break;
      }
      if (truth !== true) continue;
      first ??= id;
      list ||= mapping.config.continue;
      const step = await runMapping(mapping, scope, maxActions);
      if (step.kind === "end") {
        const { outcome } = step;
        // One of several stands alone: what it fails by is its result, and takes nothing from the others.
        if (!list || !("failure" in outcome) || outcome.failure.code === "too_many_actions") return outcome;
        results.push({ ok: false, mapping: id, failure: outcome.failure });
        if (outcome.failure.code === "mapping_failed") break;
      } else if (step.kind === "skipped") skipped ??= step.reason;
      else {
        results.push(...step.results);
        list ||= step.list;
      }
      if (!mapping.config.continue) break;
    }
    if (first === undefined) {
      const nearest = await findNearest(lookupFor(input).all, scopeOf(input));
      return nearest ? { kind: "unmatched", nearest } : { kind: "unmatched" };
    }
    if (results.length === 0) return { kind: "skipped", mapping: first, reason: skipped ?? "nothing to do" };
    if (results.length > maxActions) return (tooMany(first, results.length, maxActions) as Extract<Step, { kind: "end" }>).outcome;
    return { kind: "actions", mapping: first, list: list || results.length > 1, results };
  };

  const runAll = (candidates: readonly CompiledMapping[], input: MappingInput): Promise<Debugged<MappingOutcome>> =>
    withNotes((notes) => runEach(candidates, input, notes));

  return {
    mappings: mappings.map((mapping) => mapping.info),
    paths: [...rules.values()],
    rules: (path) => rules.get(path),
    owns: ({ path, byHookToken }) => rules.has(path) || (byHookToken && anywhere.length > 0),
    files,
    run: (input) => runAll(lookupFor(input).candidates(input.payload), input),
    async combine(id, inputs) {
      const mapping = byId.get(id);
      return mapping && withNotes((notes) => combineEvents(mapping, inputs, notes));
    },
    settings: (id) => byId.get(id)?.settings,
    budgets: [...new Map(mappings.flatMap(({ settings: { budget } }) => (budget ? [[budget.scope, budget]] : []))).values()],
    async explain(input, only) {
      const scope = scopeOf(input);
      const chosen = only === undefined ? lookupFor(input).all : mappings.filter((mapping) => mapping.config.id === only);
      const traces: MappingTrace[] = [];
      for (const mapping of chosen) {
        const path = { condition: "match.path", result: mapping.match.paths?.includes(input.path) ?? true };
        const conditions = [path, ...(await traceMapping(mapping, scope))];
        traces.push({ mapping: mapping.config.id, matched: conditions.every((trace) => trace.result === true), conditions });
      }
      return {
        traces,
        outcome: await runAll(
          chosen.filter((mapping) => mapping.match.paths?.includes(input.path) ?? true),
          input,
        ),
      };
    },
  };
}
