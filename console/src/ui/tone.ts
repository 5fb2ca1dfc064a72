/** How something went, as it is coloured; a word or a mark always says the same. */
export type Tone = "good" | "warn" | "bad" | "quiet";
