/** What is said of a recipient that is none. */
export const MALFORMED = "must be a phone number with its country code, such as +15551234567";

/** A phone number as `+` and digits; undefined where it is none. */
export function parseNumber(text: string): string | undefined {
  const digits = text.replace(/[\s().-]/g, "").replace(/^(?:\+|00)/, "");
  return /^[1-9]\d{6,14}$/.test(digits) ? `+${digits}` : undefined;
}
