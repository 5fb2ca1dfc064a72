import type { z } from "zod";

/** Fields whose whole value is one variable of the environment: the variable's name by the field's path. */
export type Variables = ReadonlyMap<string, string>;

/** A line end at the end, as `echo` writes it into the source of a secret: no value has one on purpose. */
const LINE_END = /[\r\n]+$/;

/** Returns a variable of the environment. */
export const readVariable = (
  env: Record<string, string | undefined>,
  name: string,
): string | undefined => env[name]?.replace(LINE_END, "");

type RawIssue = z.core.$ZodIssue;
type Schema<T> = Pick<z.ZodType<T>, "safeParse">;

const NUMBER = /^[+-]?\d+(?:\.\d+)?$/;

/** Returns `true` or `false` for these words, and anything else as it is. */
export function toBoolean(value: unknown): unknown {
  if (value === "true") return true;
  return value === "false" ? false : value;
}

const toNumber = (value: unknown): unknown =>
  typeof value === "string" && NUMBER.test(value) ? Number(value) : value;

interface Mismatch {
  path: PropertyKey[];
  expected: "number" | "boolean";
  issue: RawIssue;
}

/** Finds the fields that must be a number or a boolean and are not, also in the branches of unions. */
function findMismatches(
  issues: readonly RawIssue[],
  prefix: readonly PropertyKey[] = [],
): Mismatch[] {
  return issues.flatMap((issue): Mismatch[] => {
    const path = [...prefix, ...issue.path];
    if (issue.code === "invalid_union")
      return issue.errors.flatMap((branch) => findMismatches(branch, path));
    if (issue.code !== "invalid_type") return [];
    if (issue.expected === "number") return [{ path, expected: "number", issue }];
    return issue.expected === "boolean" ? [{ path, expected: "boolean", issue }] : [];
  });
}

function convertAt(root: unknown, { path, expected }: Mismatch): void {
  const parent = path
    .slice(0, -1)
    .reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown>)[key], root);
  const members = parent as Record<PropertyKey, unknown>;
  const last = path.at(-1) as PropertyKey;
  members[last] = expected === "boolean" ? toBoolean(members[last]) : toNumber(members[last]);
}

/**
 * Checks a value by a schema. Text that is one variable of the environment becomes a number or a boolean if the schema
 * requires one; text that is neither is an issue that names the variable.
 * @param variableAt returns the variable of the field at a path of `value`.
 */
export function parseWithVariables<T>(
  schema: Schema<T>,
  value: unknown,
  variableAt: (path: readonly PropertyKey[]) => string | undefined,
): z.ZodSafeParseResult<T> {
  const first = schema.safeParse(value);
  if (first.success) return first;
  const converted = structuredClone(value);
  for (const mismatch of findMismatches(first.error.issues))
    if (variableAt(mismatch.path) !== undefined) convertAt(converted, mismatch);
  const second = schema.safeParse(converted);
  for (const { path, expected, issue } of findMismatches(second.error?.issues ?? [])) {
    const name = variableAt(path);
    const form = expected === "boolean" ? "true or false" : "a number such as 8080";
    if (name !== undefined)
      Object.assign(issue, {
        message: `must be ${form}, and the environment's ${name} is not: change the variable`,
      });
  }
  return second;
}
