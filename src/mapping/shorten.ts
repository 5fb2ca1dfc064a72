import { cutText } from "../core/text.ts";
import { MAX_TEXT } from "./values.ts";

/** Characters that the texts of a shortened value have together. */
const MAX_CHARS = MAX_TEXT / 4;
/** The lengths that texts are cut to: the first by which they have few enough characters together. */
const LENGTHS = [32_000, 8_000, 2_000, 500, 125];
const MIN_LENGTH = 30;
const MAX_ENTRIES = 1_000;

type Visit = (text: string) => void;

/** Visits the texts of a value that a copy of it would keep, each object once. */
function visitTexts(value: unknown, visit: Visit, seen: Set<object>): void {
  if (typeof value === "string") return visit(value);
  if (typeof value !== "object" || value === null || seen.has(value)) return;
  seen.add(value);
  const members = Array.isArray(value) ? value.slice(0, MAX_ENTRIES) : Object.values(value);
  for (const member of members) visitTexts(member, visit, seen);
}

/**
 * Copies a value with its long texts and lists cut, and a mark where something is missing, so that a message can be made of
 * a body that is too long for its expressions. Undefined if there is nothing to cut.
 */
export function shorten<T>(value: T): T | undefined {
  const lengths: number[] = [];
  visitTexts(value, ({ length }) => lengths.push(length), new Set());
  const fits = (most: number): boolean =>
    lengths.reduce((sum, length) => sum + Math.min(length, most), 0) <= MAX_CHARS;
  const most = LENGTHS.find(fits) ?? MIN_LENGTH;
  const copies = new Map<object, unknown>();
  let isCut = false;
  const copy = (at: unknown): unknown => {
    if (typeof at === "string") {
      const { text, cut } = cutText(at, most);
      isCut ||= cut > 0;
      return cut > 0 ? `${text}[cut: ${cut} characters]` : at;
    }
    if (typeof at !== "object" || at === null) return at;
    const known = copies.get(at);
    if (known !== undefined) return known;
    const made: unknown = Array.isArray(at)
      ? at.slice(0, MAX_ENTRIES).map(copy)
      : Object.fromEntries(Object.entries(at).map(([name, member]) => [name, copy(member)]));
    if (Array.isArray(at) && at.length > MAX_ENTRIES) {
      isCut = true;
      (made as unknown[]).push(`[cut: ${at.length - MAX_ENTRIES} entries]`);
    }
    copies.set(at, made);
    return made;
  };
  const shortened = copy(value) as T;
  return isCut ? shortened : undefined;
}
