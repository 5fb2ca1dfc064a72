import { diffWordsWithSpace } from "diff";

/** A piece of a text: in both texts, only in the new one, or only in the old one. */
export interface DiffPart {
  kind: "same" | "added" | "removed";
  text: string;
}

/** Texts that differ in nearly everything are shown one after the other: no reader follows word by word. */
const MAX_EDITS = 400;

/** Compares two texts word by word. */
export function diffWords(before: string, after: string): DiffPart[] {
  const changes = diffWordsWithSpace(before, after, { maxEditLength: MAX_EDITS }) ?? [
    { value: before, added: false, removed: true },
    { value: after, added: true, removed: false },
  ];
  return changes
    .filter(({ value }) => value !== "")
    .map(({ value, added, removed }) => ({
      kind: added ? "added" : removed ? "removed" : "same",
      text: value,
    }));
}
