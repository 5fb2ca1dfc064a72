import { readFileSync } from "node:fs";
import { resolve } from "node:path";

type Written = Promise<Request | undefined>;
/** Writes the messages of samples on a channel. */
interface Writers {
  raw(text: string, more: object): Written;
  quote(text: string, quoted: { author: string; text: string }): Written;
}

/** A message as its vendor has it: its text, and the members beside that. `{{words}}` stands for what a test puts there. */
interface Sample {
  text: string;
  more: object;
}

/** Messages of one vendor that are more than a text, from `samples/<id>.json`. */
interface Samples {
  /** Messages of the owner with words of others. `origin`: how the model's request says whose they are. */
  others: (Partial<Sample> & { text: string; origin: string; quotes?: string })[];
  /** A message that quotes the words of an author. */
  quote?: Sample;
  /** Things that people point at, and the text that the model gets of them. */
  pointedAt?: (Sample & { what: string; shown: string })[];
  /** Messages in a group that address the agent. */
  calls?: (Sample & { what: string })[];
  /** Messages, and what is handed over of each; or why it is not, null if nothing is said of it. */
  handed?: (Sample & { what: string; received?: object; skipped?: string | null })[];
  /** Posts of programs in a thread, and the lines that the model gets of them. */
  alerts?: { name: string; alert: object; lines: string[] }[];
}

export const samplesOf = (id: string): Samples =>
  JSON.parse(readFileSync(resolve(import.meta.dirname, `samples/${id}.json`), "utf8")) as Samples;

const fill = ({ text, more }: Sample, words: Record<string, string>): [string, object] => {
  const filled = JSON.stringify([text, more]).replace(/\{\{(\w+)\}\}/g, (_, name: string) =>
    JSON.stringify(words[name]).slice(1, -1),
  );
  return JSON.parse(filled) as [string, object];
};

/** Makes what quotes a text on a vendor whose messages contain what they quote. */
export function quoteBy(id: string, raw: Writers["raw"]): Writers["quote"] {
  return (text, { author, text: words }) => {
    const { quote } = samplesOf(id);
    if (!quote) throw new Error(`samples/${id}.json has no quote`);
    return raw(...fill(quote, { text, author, words }));
  };
}

/** The ways in which words of others come with a message of the owner to the agent alone. */
export function waysOfOthers(
  id: string,
  sends: Writers,
): { origin: RegExp; say(words: string): Written }[] {
  return samplesOf(id).others.map(({ origin, quotes, text, more = {} }) => ({
    origin: new RegExp(origin),
    say: (words) =>
      quotes === undefined
        ? sends.raw(...fill({ text, more }, { words }))
        : sends.quote(text, { author: quotes, text: words }),
  }));
}
