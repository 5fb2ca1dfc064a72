import { z } from "zod";
import { isLongNumber } from "../core/json.ts";
import { plural } from "../core/text.ts";
import { didYouMean } from "./suggest.ts";

const KINDS: Record<string, string> = {
  string: "text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
  null: "null",
};

const nameKind = (kind: string): string => KINDS[kind] ?? kind;

/** Names the kind of a value: `a list`, `text`. */
export function findKind(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (typeof value === "number" && !Number.isInteger(value)) return "a number with a fraction";
  return nameKind(value === null ? "null" : typeof value);
}

const joinWords = (words: readonly string[]): string =>
  [words.slice(0, -1).join(", "), ...words.slice(-1)].filter((part) => part !== "").join(" or ");

/** Names the values that a form of a union takes: `text`, `a list`, `"now"`. */
function nameForm(issue: z.core.$ZodIssue | undefined): string[] {
  if (issue?.code === "invalid_type" && issue.path.length === 0) return [nameKind(issue.expected)];
  if (issue?.code === "invalid_value" && issue.path.length === 0)
    return issue.values.map((value) => JSON.stringify(value));
  return [];
}

const describeLimit = (
  { origin, exact }: { origin: string; exact?: boolean | undefined },
  limit: bigint | number,
  bound: "at least" | "at most",
  input: unknown,
): string => {
  const most = exact === true ? "exactly" : bound;
  const { length } = input as { length?: number };
  if (origin === "string")
    return `must have ${most} ${plural(Number(limit), "character")}, and has ${length}`;
  if (origin === "array")
    return `must have ${most} ${plural(Number(limit), "entry", "entries")}, and has ${length}`;
  return `must be ${most} ${limit}`;
};

/** Names the values of the field that tells the forms of an object apart. */
function describeDiscriminator(field: string, values: unknown, input: unknown): string {
  if ((input as Record<string, unknown>)[field] === undefined) return "is required";
  const names = (values as unknown[]).filter((value) => typeof value === "string");
  return `must be ${joinWords(names.map((name) => JSON.stringify(name)))}`;
}

/**
 * Says in plain words what a schema found, in place of the schema library's own. A value is not repeated, since it may be a secret.
 * Undefined leaves the message to the library.
 */
function describeSchemaIssue(issue: z.core.$ZodRawIssue): string | undefined {
  const { input } = issue;
  switch (issue.code) {
    case "invalid_type":
      if ((issue.expected === "number" || issue.expected === "int") && isLongNumber(input))
        return "is too large, or has more digits than a number can have";
      return input === undefined
        ? "is required"
        : `must be ${nameKind(issue.expected)}, and is ${Number.isNaN(input) ? "no number" : findKind(input)}`;
    case "invalid_value": {
      if (input === undefined) return "is required";
      const values = issue.values.map((value) => JSON.stringify(value));
      const hint = typeof input === "string" ? didYouMean(input, issue.values.map(String)) : "";
      return `must be ${joinWords(values)}.${hint}`.replace(/\.$/, "");
    }
    case "invalid_union": {
      if (input === undefined) return "is required";
      if (issue.discriminator !== undefined)
        return describeDiscriminator(issue.discriminator, issue["options"], input);
      const forms = [...new Set(issue.errors.flatMap(([first]) => nameForm(first)))];
      return forms.length === 0
        ? "has none of the forms that are known here"
        : `must be ${joinWords(forms)}, and is ${findKind(input)}`;
    }
    case "too_small":
      return describeLimit(issue, issue.minimum, "at least", input);
    case "too_big":
      return describeLimit(issue, issue.maximum, "at most", input);
    case "not_multiple_of":
      return `must be a multiple of ${issue.divisor}`;
    case "invalid_format":
      if (issue.format === "url") return "must be an address, such as https://example.com";
      return issue.format === "regex"
        ? `must match ${issue.pattern}`
        : `must be a valid ${issue.format}`;
    default:
      return undefined;
  }
}

z.config({ customError: describeSchemaIssue });
