import { checkDraft } from "../actions/dispatch.ts";
import type { Failure } from "../core/errors.ts";
import type { DraftResult, MappingInput, MappingOutcome } from "../mapping/types.ts";
import type { TestedAction, TestedHook } from "./admin-types.ts";
import { createKeptNames, keptParts } from "./kept-names.ts";
import type { Snapshot } from "./types.ts";

export interface HookTest {
  mapping?: string | undefined;
  /** Default: the first path of the mapping. */
  path?: string | undefined;
  method: string;
  payload: unknown;
  headers: Record<string, string>;
  query: Record<string, string>;
}

type Tested = { ok: true; tested: TestedHook } | { ok: false; failure: Failure };

function pathOf(test: HookTest, snapshot: Snapshot): { ok: true; path: string } | { ok: false; failure: Failure } {
  const { mappings } = snapshot.mappings;
  if (test.mapping === undefined) {
    if (test.path !== undefined) return { ok: true, path: test.path };
    return { ok: false, failure: { code: "usage", message: "name a mapping or a path" } };
  }
  const mapping = mappings.find(({ id }) => id === test.mapping);
  if (!mapping) {
    const known = mappings.length === 0 ? "the config has none" : `there are ${mappings.map(({ id }) => id).join(", ")}`;
    return { ok: false, failure: { code: "not_found", message: `there is no mapping with this id; ${known}` } };
  }
  return { ok: true, path: test.path ?? mapping.paths[0] ?? "test" };
}

function testedAction(result: DraftResult, input: MappingInput, snapshot: Snapshot): TestedAction {
  if (!result.ok) return { ok: false, mapping: result.mapping, failure: result.failure };
  const { draft } = result;
  const fields = draft.fields as Record<string, unknown>;
  const checked = checkDraft({ ...draft, fields }, { hook: input.path, now: input.now }, snapshot);
  return {
    ok: true,
    mapping: draft.mapping,
    action: draft.action,
    fields: Object.fromEntries(
      Object.entries(fields).filter(([name, value]) => value !== undefined && name !== "message" && name !== "text"),
    ),
    content: draft.content,
    dedupeKey: draft.dedupeKey ?? null,
    missing: draft.missing,
    warnings: draft.warnings,
    unsafe: draft.unsafe,
    problem: checked.ok ? null : checked.failure,
  };
}

function describe(outcome: MappingOutcome): Omit<TestedHook, "traces" | "actions"> {
  const base = { outcome: outcome.kind, mapping: null, reason: null, failure: null, nearest: null, missing: [] };
  switch (outcome.kind) {
    case "unmatched":
      return { ...base, nearest: outcome.nearest ?? null };
    case "skipped":
      return { ...base, mapping: outcome.mapping, reason: outcome.reason };
    case "rejected":
      return { ...base, mapping: outcome.mapping, failure: outcome.failure, missing: outcome.missing ?? [] };
    case "failed":
      return { ...base, mapping: outcome.mapping, failure: outcome.failure };
    default:
      return { ...base, mapping: outcome.mapping };
  }
}

/** Runs a hook's body through the mappings and says how each condition came out and what would be done. Sends nothing. */
export async function testHook(test: HookTest, snapshot: Snapshot, now: number): Promise<Tested> {
  const found = pathOf(test, snapshot);
  if (!found.ok) return found;
  const { path } = found;
  const { method, query } = test;
  const headers = Object.fromEntries(Object.entries(test.headers).map(([name, value]) => [name.toLowerCase(), value]));
  const input: MappingInput = {
    path,
    method,
    byHookToken: snapshot.mappings.rules(path)?.auth === undefined,
    payload: test.payload,
    ...keptParts(createKeptNames(snapshot)(path), { method, headers, query }),
    now,
  };
  const { traces, outcome } = await snapshot.mappings.explain(input, test.mapping);
  const results = outcome.kind === "actions" ? outcome.results : [];
  const actions = results.map((result) => testedAction(result, input, snapshot));
  return { ok: true, tested: { ...describe(outcome), traces, actions } };
}
