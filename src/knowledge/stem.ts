import { stemmer } from "stemmer";

/** SQLite's FTS5 stems words of so many bytes. */
const MAX_BYTES = 64;
const MIN_BYTES = 3;

/** Latin letters without their accents, and one form of the Greek sigma. */
function folded(word: string): string {
  if (/^[!-~]*$/.test(word)) return word;
  return word
    .normalize("NFD")
    .replaceAll(/(?<=[a-z])[\u0300-\u036f]+/g, "")
    .normalize("NFC")
    .replaceAll("ς", "σ");
}

/**
 * Returns the stem of a word in lower case, as SQLite's FTS5 makes it, so that both indexes find the same; words of other
 * scripts stay as they are.
 */
export function toStem(given: string): string {
  const word = folded(given);
  const bytes = Buffer.byteLength(word);
  if (bytes > MAX_BYTES || bytes < MIN_BYTES) return word;
  // FTS5 takes "yy" for a double consonant.
  return stemmer(word.replace(/^yy(?:ed|ing)$|yy(?=(?:ed|ing)$)/, "y"));
}
