import { z } from "zod";
import { withDefault } from "./common.ts";
import { didYouMean } from "../suggest.ts";

/** The rules that look for what a mapping probably does not mean, with what each warns about. */
export const LINT_RULES = {
  "never-reached": "an earlier mapping takes every hook that this one wants",
  "wrong-type": "a condition compares a text with a number by `$gt`, `$gte`, `$lt` or `$lte`",
  "unsigned-header":
    "a header decides or is rendered that the signature of the path does not cover",
  "unsafe-content":
    "`allowUnsafeExternalContent` stands beside tools, or beside a recipient, channel, agent or model that comes out of the payload",
} as const;
export type LintRule = keyof typeof LINT_RULES;

const names = Object.keys(LINT_RULES) as LintRule[];
const rule = z.enum(names, {
  error: ({ input }) =>
    `is no rule of lint.${didYouMean(String(input), names) || ` Use one of ${names.join(", ")}.`}`,
});

export const lintSchema = z.strictObject({
  off: withDefault(z.array(rule), [], "Rules that do not warn about this mapping."),
});
