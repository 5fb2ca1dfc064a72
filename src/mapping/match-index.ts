import type { CompiledMapping } from "./compiled.ts";
import { readPath, type Path } from "./json-path.ts";

/** Which mappings may match a payload, in their order. Those left out would fail on an equality. */
export interface MatchIndex {
  candidates(payload: unknown): readonly CompiledMapping[];
  readonly all: readonly CompiledMapping[];
}

interface FieldIndex {
  path: Path;
  byValue: Map<unknown, CompiledMapping[]>;
}

/** Fewer mappings than this are as quickly tried one by one. */
const WORTH_IT = 4;

/**
 * An index over the equalities of mappings, so that a thousand of them on one path cost about as much as one: each
 * mapping stands under the values of one of its fields, the one that most mappings of the set have too.
 */
export function createMatchIndex(mappings: readonly CompiledMapping[]): MatchIndex {
  if (mappings.length < WORTH_IT) return { all: mappings, candidates: () => mappings };
  const popularity = new Map<string, Set<unknown>>();
  for (const mapping of mappings) {
    for (const { field, values } of mapping.match.equalities) {
      const known = popularity.get(field) ?? new Set();
      popularity.set(field, known);
      for (const value of values) known.add(value);
    }
  }
  const fields = new Map<string, FieldIndex>();
  const always: CompiledMapping[] = [];
  for (const mapping of mappings) {
    // The field with the most different values tells the mappings apart best.
    const best = mapping.match.equalities.toSorted(
      (a, b) => (popularity.get(b.field)?.size ?? 0) - (popularity.get(a.field)?.size ?? 0),
    )[0];
    if (!best) {
      always.push(mapping);
      continue;
    }
    const index = fields.get(best.field) ?? { path: best.path, byValue: new Map<unknown, CompiledMapping[]>() };
    fields.set(best.field, index);
    for (const value of new Set(best.values)) {
      const bucket = index.byValue.get(value) ?? [];
      index.byValue.set(value, bucket);
      bucket.push(mapping);
    }
  }
  const indexes = [...fields.values()];
  return {
    all: mappings,
    candidates(payload) {
      const found = new Set<CompiledMapping>(always);
      for (const { path, byValue } of indexes) {
        const value = readPath(path, payload);
        for (const one of Array.isArray(value) ? (value as unknown[]) : [value])
          for (const mapping of byValue.get(one) ?? []) found.add(mapping);
      }
      return [...found].toSorted((a, b) => a.order - b.order);
    },
  };
}
