import { z } from "zod";
import { DM_POLICIES, type Channel } from "../contract/channel.ts";

type ParsedRecipient = ReturnType<NonNullable<Channel["parseRecipient"]>>;

/** A `parseRecipient` that may say what a recipient looks like. */
type Parse = ((to: string) => ParsedRecipient) & { like?: string };

/** One way to write a recipient. */
interface Form {
  /** For the error message if no form fits: `a group (group:<id>)`. */
  like: string;
  /** Matches the whole of what was written, without white space around it. */
  pattern: RegExp;
  /**
   * The canonical form, from the matches of the pattern's groups; undefined if the text is not of this form after all.
   * Default: the first group that matched, else the text as written.
   */
  to?(...groups: string[]): string | undefined;
}

/** A `parseRecipient` from the ways in which a recipient can be written; the first that fits counts. */
export function recipients(...forms: readonly Form[]): Parse {
  const like = forms.map((form) => form.like).join(", or ");
  const parse = (to: string): ParsedRecipient => {
    // Numbers that are copied from a list of contacts bring invisible marks of direction.
    const text = to.replace(/\p{Cf}/gu, "").trim();
    for (const { pattern, to: normal } of forms) {
      const match = pattern.exec(text);
      const groups = match?.slice(1).map((group) => group ?? "") ?? [];
      const found =
        match && (normal ? normal(...groups) : groups.find((group) => group !== "") || text);
      if (typeof found === "string") return { ok: true, to: found };
    }
    return { ok: false, message: `must be ${like}` };
  };
  return Object.assign(parse, { like });
}

/**
 * A phone number as `+` and 7 to 15 digits, without its decoration, such as the `(0)` for calls within the country;
 * undefined if it is not a phone number, or has no country code.
 */
export function phoneNumber(text: string): string | undefined {
  const digits = text.replace(/\(0\)|[\s()./\p{Pd}]/gu, "");
  return /^\+[1-9]\d{6,14}$/.test(digits) ? digits : undefined;
}

/** Countries that write a mobile number in two ways, each with the digits that one of the ways leaves out. */
const SPELLINGS: readonly RegExp[] = [
  // Mexico and Argentina: a digit for mobile numbers behind the country code.
  /^(\+52)1(\d{10})$/,
  /^(\+54)9(\d{10})$/,
  // Brazil: the ninth digit, and Benin: two digits, in front of older numbers.
  /^(\+55\d\d)9([6-9]\d{7})$/,
  /^(\+229)01(\d{8})$/,
];

const toShort = (number: string): string =>
  SPELLINGS.reduce((text, spelling) => text.replace(spelling, "$1$2"), number);

/** The entry of a list that is the same phone number, in whichever way its country writes it. */
export function findNumber(number: string, listed: readonly string[]): string | undefined {
  return (
    listed.find((entry) => entry === number) ??
    listed.find((entry) => toShort(entry) === toShort(number))
  );
}

/** The canonical form of a recipient; undefined if `parse` rejects the text. */
export function normalForm(
  parse: (text: string) => ParsedRecipient,
  text: string | undefined,
): string | undefined {
  const parsed = parse(text ?? "");
  return parsed.ok ? parsed.to : undefined;
}

/** A token, a password or the like; white space around it is never meant. */
export const secret = (describe: string) => z.string().trim().min(1).describe(describe);

/** The address of an API, `http` or `https`; what follows it begins with a slash. With `fallback` it need not be given. */
export function httpUrl(describe: string): z.ZodType<string, string>;
export function httpUrl(
  describe: string,
  fallback: string,
): z.ZodPrefault<z.ZodType<string, string>>;
export function httpUrl(describe: string, fallback?: string) {
  const url: z.ZodType<string, string> = z
    .url({ protocol: /^https?$/ })
    .transform((text) => text.replace(/\/+$/, ""));
  // `default` stands behind the transform, where the option tables of the docs do not see it.
  return (fallback === undefined ? url : url.prefault(fallback)).describe(describe);
}

/**
 * Returns whether people see that the agent is typing: the setting `typing`, which the gateway reads. `more` is added
 * to its description.
 */
export const typingSetting = (more = "") =>
  z
    .boolean()
    .default(true)
    .describe(`Whether people see that the agent is typing while it works on an answer.${more}`);

/**
 * Returns whether people see the agent's text while it is written: the setting `streaming`, which the gateway reads.
 */
export const streamingSetting = () =>
  z
    .boolean()
    .default(false)
    .describe(
      "Whether people see the text of an answer while it is written, in a message that is edited.",
    );

/**
 * The people who may write on a channel, and the recipients of its replies. The section is described by what their
 * forms look like.
 */
interface People {
  /** The ways to write an entry of `allowFrom`, kept in the form in which `from` gives it. */
  person: Form | readonly Form[];
  parseRecipient: Parse;
}

function checked(parse: Parse) {
  return (text: string | number, context: z.RefinementCtx): string => {
    const parsed = parse(String(text));
    if (parsed.ok) return parsed.to;
    context.addIssue({ code: "custom", message: parsed.message });
    return z.NEVER;
  };
}

/** The section of a channel that people write to: its own settings, `allowFrom` and `defaultTo`. The host gives both to the channel. */
export function channelConfig<T extends z.ZodRawShape>(own: T, { person, parseRecipient }: People) {
  const parsePerson = recipients(...[person].flat());
  const entry = z
    .union([z.string(), z.int()], `must be ${parsePerson.like}`)
    .transform(checked(parsePerson));
  const to = parseRecipient.like === undefined ? "" : `: ${parseRecipient.like}`;
  return z.strictObject({
    ...own,
    allowFrom: z
      .array(entry)
      .prefault([])
      .describe(`Who may speak to the agent, each ${parsePerson.like}. Empty: no person may.`),
    dmPolicy: z
      .enum(DM_POLICIES)
      .default("allowlist")
      .describe(
        "Who may write direct messages: `allowlist`, the people in `allowFrom`; `pairing`, also those whom you approve; `open`, everybody; `closed`, no person.",
      ),
    defaultTo: z
      .string()
      .transform(checked(parseRecipient))
      .optional()
      .describe(`The recipient if none is named${to}.`),
  });
}
