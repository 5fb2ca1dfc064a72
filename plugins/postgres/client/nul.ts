/**
 * PostgreSQL's text holds every character but U+0000, which a sender may well write (`"\u0000"` in JSON). It is kept as
 * a character that Unicode promises never to use, which itself is kept doubled, so that nothing is lost.
 */
const MARK = "\u{10FFFF}";

export function encodeNul(text: string): string {
  if (!text.includes("\0") && !text.includes(MARK)) return text;
  return text.replaceAll(MARK, `${MARK}1`).replaceAll("\0", `${MARK}0`);
}

export function decodeNul(text: string): string {
  if (!text.includes(MARK)) return text;
  return text.replaceAll(`${MARK}0`, "\0").replaceAll(`${MARK}1`, MARK);
}

/** A statement's value, or a list of them, fit for PostgreSQL. */
export function encodeValue(value: unknown): unknown {
  if (typeof value === "string") return encodeNul(value);
  return Array.isArray(value) ? value.map(encodeValue) : value;
}
