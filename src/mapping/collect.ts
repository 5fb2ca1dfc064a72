import { plainText } from "../core/text.ts";
import type { CompiledMapping } from "./compiled.ts";
import type { TemplateContext } from "./template-context.ts";
import type { DraftResult, MappingOutcome } from "./types.ts";

const MAX_KEY = 512;
/** Without `maxSeconds` a window is open for so many quiet times at most. */
const WINDOWS = 10;

type Marked = { ok: true; results: DraftResult[] } | { ok: false; outcome: MappingOutcome };

/** Marks what one event comes to as to be collected: with others of the same key it becomes one run. */
export async function markBatched(
  { config, coalesceKey }: CompiledMapping,
  scope: TemplateContext,
  results: DraftResult[],
): Promise<Marked> {
  const { coalesce, id } = config;
  if (!coalesce || !coalesceKey) return { ok: true, results };
  const [result] = results;
  if (results.length !== 1 || !result) {
    const failure = {
      code: "transform_failed" as const,
      message: "a mapping with `coalesce` makes one action: the transform gave several",
    };
    return { ok: false, outcome: { kind: "failed", mapping: id, failure } };
  }
  // In shadow nothing is done, and a wake has a queue of its own that collects.
  if (!result.ok || result.draft.shadow || result.draft.action !== "agent") return { ok: true, results };
  const key = await coalesceKey.render(scope);
  if (!key.ok) {
    const failure = { code: "mapping_failed" as const, message: `coalesce.key: ${key.message}` };
    return { ok: false, outcome: { kind: "failed", mapping: id, failure } };
  }
  const [hole] = key.empty;
  if (hole !== undefined) {
    // Events of strangers have nothing in common by a part that all of them miss.
    const warnings = [
      ...result.draft.warnings,
      `coalesce.key: {{ ${hole.slice(0, 80)} }} is missing or empty, so that this event is not collected with others`,
    ];
    return { ok: true, results: [{ ok: true, draft: { ...result.draft, warnings } }] };
  }
  const { windowSeconds, maxSeconds = windowSeconds * WINDOWS, maxEvents } = coalesce;
  const batch = { key: plainText(key.parts).slice(0, MAX_KEY), windowSeconds, maxSeconds, maxEvents };
  return { ok: true, results: [{ ok: true, draft: { ...result.draft, batch } }] };
}
