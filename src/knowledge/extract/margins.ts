const LONG_WORD = /\p{L}{4,}/gu;
const MIN_LONG_WORDS = 2;

/** Whether a header or footer that has a field tells something without it: "Page … of …" does not. */
export const isTelling = (text: string): boolean =>
  (text.match(LONG_WORD)?.length ?? 0) >= MIN_LONG_WORDS;
