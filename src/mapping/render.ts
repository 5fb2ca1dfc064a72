import type { Failure, Issue } from "../core/errors.ts";
import { fitKey } from "../vocabulary/session-key.ts";
import { plainText, type TextPart } from "../core/text.ts";
import type { CompiledMapping } from "./compiled.ts";
import { isEmptyValue, type TemplateContext } from "./template-context.ts";
import { whenSettled, type Rendered, type RenderedText } from "./template.ts";
import type { ActionDraft, DraftResult, MappingOutcome } from "./types.ts";

type Failed = Extract<MappingOutcome, { kind: "rejected" | "failed" }>;

/** The result of a mapping for an event or for one item of it; a failure ends the event. */
export type Step =
  | { kind: "results"; results: DraftResult[]; list: boolean }
  | { kind: "skipped"; reason: string }
  | Failed;

export const toFailed = (
  mapping: string,
  message: string,
  code: "mapping_failed" | "transform_failed" = "mapping_failed",
): Failed => ({ kind: "failed", mapping, failure: { code, message } });

interface Rendering {
  fields: Record<string, unknown>;
  content: TextPart[];
  dedupeKey?: string;
  missing: string[];
  warnings: string[];
  /** The first expression of `sessionKey` that gave an empty value. */
  keyHole?: string;
}

const MAX_DEDUPE_KEY = 512;

/** An expression of a template that came out empty, as a warning names it. */
const renderHole = (expression: string): string => `{{ ${expression.slice(0, 80)} }}`;

/** Takes a duplicate key only whole: events that miss the same part of it are not the same event. */
function setDedupeKey(rendering: Rendering, { parts, empty }: RenderedText): void {
  if (empty[0] === undefined) rendering.dedupeKey = plainText(parts);
  else
    rendering.warnings.push(
      `dedupeKey: ${renderHole(empty[0])} is missing or empty, so that the event is compared with no other`,
    );
}

/** Renders all templates of a mapping; a promise only where one of them needs it. */
function renderAll(
  mapping: CompiledMapping,
  scope: TemplateContext,
): Rendering | string | Promise<Rendering | string> {
  const templates = [
    ...mapping.fields.map((entry) => entry.template),
    mapping.content,
    mapping.dedupeKey,
  ];
  const rendered = templates.map((template) => template?.render(scope));
  const finish = (values: (Rendered | undefined)[]): Rendering | string => {
    const rendering: Rendering = { fields: {}, content: [], missing: [], warnings: [] };
    const { config } = mapping;
    for (const field of ["wakeMode", "deliver", "timeoutSeconds", "instructions"] as const)
      if (config[field] !== undefined) rendering.fields[field] = config[field];
    for (const [index, value] of values.entries()) {
      if (value === undefined) continue;
      if (!value.ok) return value.message;
      rendering.missing.push(...value.missing);
      const entry = mapping.fields[index];
      if (entry) {
        const text = plainText(value.parts);
        if (entry.field === "sessionKey" && value.empty[0] !== undefined)
          rendering.keyHole = renderHole(value.empty[0]);
        // Of a recipient no part may be missing; and without `to` the reply would go to the last one.
        else if (entry.field === "to") rendering.fields.to = value.missing.length > 0 ? "" : text;
        else if (text !== "")
          rendering.fields[entry.field] = entry.field === "sessionKey" ? fitKey(text) : text;
      } else if (index === mapping.fields.length) rendering.content = value.parts;
      else if (plainText(value.parts) !== "") setDedupeKey(rendering, value);
    }
    return rendering;
  };
  return whenSettled(rendered, finish);
}

/** Says what of a run's session key is empty: what the transform gave, else a part of the template. */
function findKeyHole(rendering: Rendering, change: Record<string, unknown>): string | undefined {
  if (!("sessionKey" in change)) return rendering.keyHole;
  return isEmptyValue(change["sessionKey"]) ? "what the transform gave" : undefined;
}

/**
 * Takes a key with an empty part out of a draft: events that miss the same part have nothing in common, and must not
 * share a conversation. Returns the failure under `strict`.
 */
function replaceKey(
  mapping: CompiledMapping,
  draft: ActionDraft,
  hole: string,
): Failure | undefined {
  const message = `${hole} is missing or empty`;
  if (mapping.config.strict) {
    const issues = [{ path: "sessionKey", message }];
    return {
      code: "mapping_incomplete",
      message: `the mapping is strict and its sessionKey is incomplete: ${message}`,
      issues,
    };
  }
  const template = mapping.fields.find(({ field }) => field === "sessionKey")?.template;
  delete draft.fields.sessionKey;
  draft.freshKeyPrefix = template?.literal ? `${template.start}:` : (template?.start ?? "");
  draft.warnings.push(`sessionKey: ${message}, so that this event has a conversation of its own`);
  return undefined;
}

const refused = (
  mapping: string,
  code: "transform_failed" | "mapping_incomplete",
  message: string,
  issue: Issue,
): DraftResult => ({
  ok: false,
  mapping,
  failure: { code, message, issues: [issue] },
});

/** Says that a transform gave the content of another action; empty if it did not. */
function renderMisnamed(field: "text" | "message", change: Record<string, unknown> = {}): string {
  const other = field === "text" ? "message" : "text";
  if (change[field] !== undefined || change[other] === undefined) return "";
  return `: the transform gave \`${other}\`, and \`${field === "text" ? "wake" : "agent"}\` has \`${field}\``;
}

function renderDraft(
  mapping: CompiledMapping,
  rendering: Rendering,
  change: Record<string, unknown> | undefined,
): DraftResult {
  const { config } = mapping;
  const { action: changed, message, text, dedupeKey, ...fields } = change ?? {};
  const action = (changed as "wake" | "agent" | undefined) ?? config.action;
  const field = action === "wake" ? "text" : "message";
  const own = action === "wake" ? text : message;
  if (own !== undefined && typeof own !== "string")
    return refused(config.id, "transform_failed", `the transform gave a ${field} that is no text`, {
      path: field,
      message: "must be text",
    });
  const inherited = action === config.action ? rendering.content : [];
  const draft: ActionDraft = {
    action,
    mapping: config.id,
    fields: { ...rendering.fields, ...fields },
    // A module's text has the sender's words in it: all of it is outside text.
    content: own === undefined ? inherited : [{ text: own, outside: true }],
    unsafe: config.allowUnsafeExternalContent,
    missing: rendering.missing,
    warnings: [...rendering.warnings],
  };
  if (config.ignoreSelf?.marker !== undefined) draft.marker = config.ignoreSelf.marker;
  if (config.summary !== undefined) draft.summary = config.summary;
  const key = dedupeKey ?? rendering.dedupeKey;
  if (typeof key === "string" && key !== "") draft.dedupeKey = fitKey(key, MAX_DEDUPE_KEY);
  if (plainText(draft.content).trim() === "")
    return refused(
      config.id,
      "mapping_incomplete",
      `${field} came out empty${renderMisnamed(field, change)}`,
      {
        path: field,
        message: "came out empty",
      },
    );
  const hole = action === "agent" ? findKeyHole(rendering, fields) : undefined;
  const failure = hole === undefined ? undefined : replaceKey(mapping, draft, hole);
  return failure ? { ok: false, mapping: config.id, failure } : { ok: true, draft };
}

function strictProblem({ config }: CompiledMapping, { missing }: Rendering): Failed | undefined {
  if (!config.strict || missing.length === 0) return undefined;
  const issues = missing.map((path) => ({ path, message: "is missing from the event" }));
  const message = `the mapping is strict and ${missing[0]} is missing`;
  const failure: Failure = { code: "mapping_incomplete", message, issues };
  return { kind: "rejected", mapping: config.id, failure, missing };
}

async function withTransform(
  mapping: CompiledMapping,
  rendering: Rendering,
  scope: TemplateContext,
): Promise<Step> {
  const outcome = await (mapping.transform as NonNullable<typeof mapping.transform>).run(scope);
  if (!outcome.ok) return toFailed(mapping.config.id, outcome.message, "transform_failed");
  if ("skipped" in outcome) return { kind: "skipped", reason: "the transform gave null" };
  const { actions, list } = outcome;
  if (actions.length === 0) return { kind: "skipped", reason: "the transform gave an empty list" };
  const results = actions.map((change) => renderDraft(mapping, rendering, change));
  return { kind: "results", results, list };
}

/** The drafts of one mapping for one scope (an event, or one item of it). */
export function makeDrafts(mapping: CompiledMapping, scope: TemplateContext): Step | Promise<Step> {
  const finish = (rendering: Rendering | string): Step | Promise<Step> => {
    if (typeof rendering === "string") return toFailed(mapping.config.id, rendering);
    const strict = strictProblem(mapping, rendering);
    if (strict) return strict;
    if (mapping.transform) return withTransform(mapping, rendering, scope);
    return { kind: "results", results: [renderDraft(mapping, rendering, undefined)], list: false };
  };
  const rendering = renderAll(mapping, scope);
  return rendering instanceof Promise ? rendering.then(finish) : finish(rendering);
}

const MAX_KEY = 512;
/** Without `maxSeconds` a window is open for so many quiet times at most. */
const WINDOWS = 10;

/** Marks what one event comes to as to be collected: with others of the same key it becomes one run. A failure is the mapping's. */
export async function markBatched(
  { config, coalesceKey }: CompiledMapping,
  scope: TemplateContext,
  step: Extract<Step, { kind: "results" }>,
): Promise<Step> {
  const { coalesce, id } = config;
  if (!coalesce || !coalesceKey) return step;
  const [result] = step.results;
  if (step.results.length !== 1 || !result) {
    const message = "a mapping with `coalesce` makes one action: the transform gave several";
    return toFailed(id, message, "transform_failed");
  }
  // A wake has a queue of its own that collects.
  if (!result.ok || result.draft.action !== "agent") return step;
  const key = await coalesceKey.render(scope);
  if (!key.ok) return toFailed(id, `coalesce.key: ${key.message}`);
  const [hole] = key.empty;
  const withDraft = (change: Partial<ActionDraft>): Step => ({
    ...step,
    results: [{ ok: true, draft: { ...result.draft, ...change } }],
  });
  if (hole !== undefined) {
    // Events of strangers have nothing in common by a part that all of them miss.
    const warning = `coalesce.key: ${renderHole(hole)} is missing or empty, so that this event is not collected with others`;
    return withDraft({ warnings: [...result.draft.warnings, warning] });
  }
  const { windowSeconds, maxSeconds = windowSeconds * WINDOWS, maxEvents } = coalesce;
  const batchKey = plainText(key.parts).slice(0, MAX_KEY);
  return withDraft({ batch: { key: batchKey, windowSeconds, maxSeconds, maxEvents } });
}
