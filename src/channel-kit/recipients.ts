import type { Channel } from "../contract/channel.ts";

/** What `parseRecipient` answers. */
export type ParsedRecipient = ReturnType<NonNullable<Channel["parseRecipient"]>>;

/** A `parseRecipient` that may say what a recipient looks like. */
export type Parse = ((to: string) => ParsedRecipient) & { like?: string };

/** One way to write a recipient. */
export interface Form {
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
    const text = to.trim();
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

/** A phone number as `+` and 7 to 15 digits, without its decoration; undefined if it is not a phone number, or has no country code. */
export function phoneNumber(text: string): string | undefined {
  const digits = text.replace(/[\s().-]/g, "");
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
