import type { z } from "zod";
import type { Issue } from "../core/errors.ts";
import { parseWithVariables, type Variables } from "./environment.ts";
import { parentPath, renderPath, schemaIssues, type SchemaIssue } from "./issues.ts";
import { configSchema, type Config } from "./schema/index.ts";

type Path = readonly PropertyKey[];

/** What takes the place of an entry that other fields may name: left out, each of these fields would be a problem too. */
const STAND_INS: readonly [RegExp, (index: string) => unknown][] = [
  [/^agents\.list\[(\d+)\]$/, (index) => ({ id: `agent-${index}` })],
  [/^models\.providers\.([^.]+)$/, () => ({ type: "-" })],
  [/^mcp\.servers\.([^.]+)$/, () => ({ command: "true" })],
  [/^hooks\.mappings\[(\d+)\]$/, () => ({ messageTemplate: "-" })],
];
const MAX_ROUNDS = 10;

const isObject = (value: unknown): value is Record<PropertyKey, unknown> => typeof value === "object" && value !== null;

function valueAt(root: unknown, path: Path): unknown {
  return path.reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), root);
}

/** Takes out the field at a path, or the nearest one around it that can go. Returns what went; undefined if that is all. */
function takeOut(root: unknown, path: Path): Path | undefined {
  for (let at = path; at.length > 0; at = at.slice(0, -1)) {
    const parent = valueAt(root, at.slice(0, -1));
    const last = at.at(-1) as PropertyKey;
    if (!isObject(parent) || !Object.hasOwn(parent, last)) continue;
    const text = renderPath(at);
    const [pattern, standIn] = STAND_INS.find(([candidate]) => candidate.test(text)) ?? [];
    if (standIn) parent[last] = standIn(pattern?.exec(text)?.[1] ?? "");
    // The places of a list's other entries must not change.
    else if (Array.isArray(parent)) continue;
    else delete parent[last];
    return at;
  }
  return undefined;
}

/** A config without the fields that its schema refuses. */
export interface UsableConfig {
  /** Undefined if too little is left to be checked further. */
  config: Config | undefined;
  issues: SchemaIssue[];
  /** What was taken out. */
  removed: string[];
}

/** Checks a config. Removes invalid fields, so that the remaining fields can be checked as well. */
export function parseUsable(value: unknown, variables: Variables): UsableConfig {
  const parse = (raw: unknown): z.ZodSafeParseResult<Config> =>
    parseWithVariables(configSchema, raw, (path) => variables.get(renderPath(path)));
  const first = parse(value);
  if (first.success) return { config: first.data, issues: [], removed: [] };
  const issues = schemaIssues(first.error, configSchema);
  const rest = structuredClone(value);
  const removed: string[] = [];
  let { error } = first as { error: z.ZodError | undefined };
  for (let round = 0; error && round < MAX_ROUNDS; round++) {
    for (const { path } of schemaIssues(error, configSchema)) {
      const gone = takeOut(rest, path);
      if (!gone) return { config: undefined, issues, removed };
      removed.push(renderPath(gone));
    }
    const next = parse(rest);
    if (next.success) return { config: next.data, issues, removed };
    error = next.error;
  }
  return { config: undefined, issues, removed };
}

/**
 * Finds the problems that are there only because fields were wrong before: those of the same fields, of what they are
 * part of, and of fields that are missing beside them.
 * @param isWritten whether the file has a field.
 */
export function followsFrom(paths: readonly string[], isWritten: (path: string) => boolean): (issue: Issue) => boolean {
  const wrong = new Set(paths);
  const parents = new Set(paths.map(parentPath));
  return ({ path }) => {
    for (let at = path; at !== ""; at = parentPath(at)) if (wrong.has(at)) return true;
    return parents.has(path) || (parents.has(parentPath(path)) && !isWritten(path));
  };
}
