/** Marks of a sentence in which a value that it was written around is missing. */
const HOLES: readonly [string, RegExp][] = [
  ["two spaces", / {2}/],
  ["empty brackets", /\(\s*\)/],
  ["empty quotes", /(?<!:)""|''|“”|‘’/],
  ["a space before a punctuation mark", / [,.;:)]/],
  ["a space after an opening bracket", /\( /],
  ["a value that is not text", /\bundefined\b|(?<!":)\bnull\b|\bNaN\b|\[object/],
  ["a space at the end of a line", / $/m],
  ["a colon before nothing", /:\s*$|:\n\s*\n/],
  ["a line without a word", /^[^\p{L}\p{N}\n]+$/mu],
  ["more than one empty line", /\n{3}/],
  ["an empty line at an end", /^\s|\s$/],
  ["a number sign without a number", /#(?!\w)/],
  ["a sentence that stops short", /\b(?:a|an|the|by|of|on|in|to|from|into|at|with)(?:[.,;)]|$)/im],
  ["no text at all", /^$/],
];

/** The names of the holes in a text, such as "empty brackets". */
export function holesIn(text: string): string[] {
  return HOLES.filter(([, pattern]) => pattern.test(text)).map(([name]) => name);
}
