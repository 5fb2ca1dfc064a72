import { randomInt } from "node:crypto";

/**
 * No two of these characters look alike. No letter is a hexadecimal digit, and a code begins with a letter, so that no code of
 * a person is a code of a tool call.
 */
const LETTERS = "HJKMNPQRTVWXY";
const ALPHABET = `${LETTERS}34789`;
const LENGTH = 8;

const draw = (from: string): string => from.charAt(randomInt(from.length));

/** Creates a code for people to type: 32 random bits, and none that is taken. */
export function createPersonCode(isTaken: (code: string) => boolean = () => false): string {
  const code = draw(LETTERS) + Array.from({ length: LENGTH - 1 }, () => draw(ALPHABET)).join("");
  return isTaken(code) ? createPersonCode(isTaken) : code;
}

/** A code as a person types it: case, white space and hyphens do not matter. */
export const normalizePersonCode = (text: string): string =>
  text.toUpperCase().replace(/[\s-]/g, "");

const DECISION = new RegExp(
  `^(?:@\\S+\\s+)?[/!]?(approve|deny)(?:@\\S+)?\\s+([${LETTERS}][${ALPHABET}]{${LENGTH - 1}})[.!]?$`,
  "i",
);

/** Parses a message that decides about a person (`/approve HK7X3PTW`); undefined for any other message. */
export function parsePersonDecision(
  text: string,
): { verdict: "approve" | "deny"; code: string } | undefined {
  const [, verdict, code] = DECISION.exec(text.trim()) ?? [];
  if (verdict === undefined || code === undefined) return undefined;
  return { verdict: verdict.toLowerCase() as "approve" | "deny", code: code.toUpperCase() };
}
