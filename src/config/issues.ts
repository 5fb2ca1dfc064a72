import { isAbsolute, relative } from "node:path";
import type { z } from "zod";
import type { Issue } from "../core/errors.ts";
import { oneLine } from "../core/text.ts";
import { getMemberNames, getMembers } from "./schema-walk.ts";
import "./schema-words.ts";
import { didYouMean } from "./suggest.ts";

/** The path of a member: `hooks.mappings` and 2 are `hooks.mappings[2]`. */
export const joinPath = (path: string, key: string | number): string =>
  typeof key === "number" ? `${path}[${key}]` : path === "" ? key : `${path}.${key}`;

/** `hooks.mappings[2].id`: a path as people write it. */
export const renderPath = (path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (text, key) => joinPath(text, typeof key === "symbol" ? String(key) : key),
    "",
  );

/** The path of the field around a field; empty for one at the top. */
export function parentPath(path: string): string {
  return /^(.*?)(?:\.[^.[\]]*|\[\d+\])$/.exec(path)?.[1] ?? "";
}

type Raw = z.core.$ZodIssue;

/** The branch of a union that comes nearest: the one whose problems lie deepest, and that knows the most keys. */
function nearestBranch(branches: readonly (readonly Raw[])[]): readonly Raw[] {
  const unknown = (issues: readonly Raw[]): number =>
    issues.filter(({ code }) => code === "unrecognized_keys").length;
  const nearness = (issues: readonly Raw[]): number =>
    Math.max(0, ...issues.map((issue) => issue.path.length)) * 10 - issues.length - unknown(issues);
  return branches.toSorted((a, b) => nearness(b) - nearness(a))[0] ?? [];
}

/** A problem that a schema found, with its path in parts. */
export interface SchemaIssue {
  path: PropertyKey[];
  message: string;
}

/** Renders the fields that a key is the name of, in members of its object: ` Did you mean "match.path"?`, or nothing. */
function findInside(key: string, members: readonly string[], schemas: readonly unknown[]): string {
  const isIn = (name: string): boolean => getMemberNames(getMembers(schemas, name)).includes(key);
  const found = members.filter(isIn).map((name) => `"${name}.${key}"`);
  return found.length === 0 || found.length > 2 ? "" : ` Did you mean ${found.join(" or ")}?`;
}

/** zod's problems as ours: unknown keys one by one with what may have been meant, unions by their nearest branch. `schemas`: those that the value may have. */
export function schemaIssues(error: z.ZodError, schemas: readonly z.ZodType[]): SchemaIssue[] {
  const flatten = (issue: Raw, prefix: readonly PropertyKey[]): SchemaIssue[] => {
    const path = [...prefix, ...issue.path];
    if (issue.code === "unrecognized_keys") {
      const here = path.reduce<readonly unknown[]>(getMembers, schemas);
      const known = getMemberNames(here);
      return issue.keys.map((key) => ({
        path: [...path, key],
        message: `is not known.${didYouMean(key, known) || findInside(key, known, here)}`,
      }));
    }
    if (issue.code === "invalid_union" && issue.errors.length > 0) {
      const nearest = nearestBranch(issue.errors);
      if (nearest.some((inner) => inner.path.length > 0 || inner.code === "unrecognized_keys"))
        return nearest.flatMap((inner) => flatten(inner, path));
    }
    return [{ path, message: issue.message }];
  };
  return error.issues.flatMap((issue) => flatten(issue, []));
}

/** The same with paths as people write them. */
export function configIssues(error: z.ZodError, schema: z.ZodType): Issue[] {
  return schemaIssues(error, [schema]).map(({ path, message }) => ({
    path: renderPath(path),
    message,
  }));
}

/** `mappings/ci.json: mappings[0].id`: a file of `hooks.mappingsDir`, and the path in it. */
export const MAPPING_FILE = /^mappings\/([^:/]+?)(?:: (.*))?$/;

/**
 * A problem on one line: `rouse.json5:12:5  hooks.path: must not be …`. Its detail follows on lines of its own.
 * @param folder files in it are named relative to it.
 */
export function renderIssue(
  { path, message, file, line, column, detail }: Issue,
  folder?: string,
): string {
  const inner = file === undefined ? path : path.replace(MAPPING_FILE, "$2");
  const more = detail === undefined ? "" : `\n${detail}`.replace(/\n/g, "\n    ");
  // A key or a value that the message quotes may have line breaks, and would look like a line of its own.
  const text = `${oneLine(inner === "" ? message : `${inner}: ${message}`)}${more}`;
  if (file === undefined) return text;
  const near = folder === undefined ? file : relative(folder, file);
  const shown = near.startsWith("..") || isAbsolute(near) ? file : near;
  return `${shown}${line === undefined ? "" : `:${line}:${column}`}  ${text}`;
}
