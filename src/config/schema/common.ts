import { z } from "zod";

/** Levels of thinking, from none to the most. `off` is sent to providers as `none`. */
export const THINKING_LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh", "max"] as const;
export type Thinking = (typeof THINKING_LEVELS)[number];

export const WAKE_MODES = ["now", "next-heartbeat"] as const;
export type WakeMode = (typeof WAKE_MODES)[number];

/** Effects of the summary of a hook's run: start a heartbeat if `wakeMode` is `now`, or wait for the next one. */
export const SUMMARIES = ["heartbeat", "quiet"] as const;
export type Summary = (typeof SUMMARIES)[number];

export const thinking = z.enum(THINKING_LEVELS);
export const wakeMode = z.enum(WAKE_MODES);
export const summary = z.enum(SUMMARIES);

/** `90`, `"90s"`, `"30m"`, `"24h"`, `"3d"`, `0`: a number alone is seconds. The output is milliseconds. */
const DURATION = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?$/;
const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Parses a duration of the config into milliseconds. Undefined if it is not a duration. */
export function parseDuration(value: string | number): number | undefined {
  if (typeof value === "number")
    return Number.isFinite(value) && value >= 0 ? value * 1000 : undefined;
  const found = DURATION.exec(value.trim());
  if (!found) return undefined;
  const unit = (found[2] ?? "s") as keyof typeof UNIT_MS;
  return Number(found[1]) * UNIT_MS[unit];
}

/** Renders milliseconds as the config has a duration: `30m`. */
export function renderInterval(ms: number): string {
  const units = Object.entries(UNIT_MS);
  const [unit, size] = units.findLast(([, one]) => ms >= one && ms % one === 0) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}

const DURATION_ADVICE = 'write a duration such as "90s", "30m", "24h" or "3d"';

/** A duration field. Input: text with a unit, or seconds. Output: milliseconds. */
export const duration = z
  .union([z.string(), z.number()], DURATION_ADVICE)
  .transform((value, context) => {
    const ms = parseDuration(value);
    if (ms !== undefined) return ms;
    context.addIssue({ code: "custom", message: DURATION_ADVICE });
    return z.NEVER;
  });

/** A duration field with a default, written as in a config. */
export const durationOr = (standard: string) => duration.prefault(standard);

/** An agent's, provider's, plugin's or mapping's id. */
export const idText = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/,
    "use letters, digits, `.`, `_` and `-`, at most 64, starting with a letter or digit",
  );

/** Text that is not empty. */
export const text = z.string().min(1);

/** A whole number above 0. */
export const positive = z.int().positive();

/** A field that may be left out. */
export const optionalField = <T extends z.ZodType>(schema: T, description: string) =>
  schema.optional().describe(description);

/** A field that has a value if it is left out. */
export const withDefault = <T extends z.ZodType>(
  schema: T,
  standard: z.core.util.NoUndefined<z.output<T>>,
  description: string,
) => schema.default(standard).describe(description);

/** A switch, which is off unless `standard` says otherwise. */
export const switchField = (description: string, standard = false) =>
  withDefault(z.boolean(), standard, description);

/** A list, which is empty if it is left out. */
export const list = <T extends z.ZodType>(entry: T, description: string) =>
  z.array(entry).default([]).describe(description);

/** A section whose fields all have defaults: one that is left out has them too. */
export const section = <T extends z.ZodRawShape>(description: string, fields: T) =>
  z
    .strictObject(fields)
    .prefault({} as z.input<z.ZodObject<T, z.core.$strict>>)
    .describe(description);

/** A section that may be left out. */
export const optionalSection = <T extends z.ZodRawShape>(description: string, fields: T) =>
  optionalField(z.strictObject(fields), description);

/** References of shells, pipelines and templates. They stay as they are written, and would be the secret itself. */
const REFERENCE =
  /^(?:\$[A-Z][A-Z0-9_]{2,}|%[A-Z][A-Z0-9_]{2,}%|\$?\{\{.*\}\}|(?:\$?env:|process\.env\.)\w+)$/s;
const isNoReference = (value: string): boolean => !REFERENCE.test(value);

/** A secret as the config holds it once `${ENV}` and `{ file }` are resolved. */
export const secretSchema = z
  .string()
  .min(1)
  .refine(isNoReference, 'is no secret but a reference: write "${NAME}", or { file: "…" }')
  .meta({ secret: true });
