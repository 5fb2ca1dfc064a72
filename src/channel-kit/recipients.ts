import type { Channel } from "../contract/channel.ts";

/** What `parseRecipient` answers. */
export type ParsedRecipient = ReturnType<NonNullable<Channel["parseRecipient"]>>;

/** A `parseRecipient` that may say what a recipient looks like. */
export type Parse = ((to: string) => ParsedRecipient) & { like?: string };

/** One way to write a recipient. */
export interface Form {
  /** For the message where nothing fits: `a group (group:<id>)`. */
  like: string;
  /** Matches the whole of what was written, without white space around it. */
  pattern: RegExp;
  /**
   * The one form in which it is kept, from what the pattern's groups hold; undefined where it is none after all.
   * Default: what the first group holds that holds anything, else as written.
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
      const found = match && (normal ? normal(...groups) : groups.find((group) => group !== "") || text);
      if (typeof found === "string") return { ok: true, to: found };
    }
    return { ok: false, message: `must be ${like}` };
  };
  return Object.assign(parse, { like });
}

/** A phone number as `+` and 7 to 15 digits, without its decoration; undefined where it is none, or names no country. */
export function phoneNumber(text: string): string | undefined {
  const digits = text.replace(/[\s().-]/g, "");
  return /^\+[1-9]\d{6,14}$/.test(digits) ? digits : undefined;
}

/** The form in which a text is kept that one of these ways may have written; undefined where none has. */
export function normalForm(parse: (text: string) => ParsedRecipient, text: string | undefined): string | undefined {
  const parsed = parse(text ?? "");
  return parsed.ok ? parsed.to : undefined;
}
