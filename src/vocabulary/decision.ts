/** The decisions of people: `approve` and `deny` a call before it is made; `repeat`, `done` and `give_up` one whose outcome is unknown. */
export const VERDICTS = ["approve", "deny", "repeat", "done", "give_up"] as const;
export type Verdict = (typeof VERDICTS)[number];

/** The `by` of an approval that expired without a decision of a person. */
export const TIMEOUT = "timeout";
/** The longest note to the model, in UTF-16 units. */
export const MAX_NOTE = 500;

/** A decision as people write or press it: a verdict, the code of the approval, and for a denial words to the model. */
export interface WrittenDecision {
  verdict: Verdict;
  code: string;
  note?: string;
}

const WORDS: Record<string, Verdict> = {
  approve: "approve",
  deny: "deny",
  repeat: "repeat",
  done: "done",
  "give up": "give_up",
};
/**
 * A decision also after a mention, as a command, and with the bot's name behind it (`@rouse /deny@rouse_bot 7f3: too expensive`).
 * A code is hexadecimal, which keeps most sentences from being taken for decisions.
 */
const DECISION =
  /^(?:@\S+\s+)?[/!]?(approve|deny|repeat|done|give[ _]up)(?:@\S+)?\s+([0-9a-f]{3,12})\b(?:[.!]|[\s:,-]+(.+))?$/is;

/** Writes a decision: `approve 7f3`. It is the data of a button too. */
export function renderVerdict(verdict: Verdict, code: string): string {
  return `${verdict.replace("_", " ")} ${code}`;
}

/** Parses a message that is a decision; undefined for any other message. Only a denial may say more than verdict and code. */
export function parseDecision(text: string): WrittenDecision | undefined {
  const [, word = "", code = "", note] = DECISION.exec(text.trim()) ?? [];
  const verdict = WORDS[word.toLowerCase().replace("_", " ")];
  if (verdict === undefined || (note !== undefined && verdict !== "deny")) return undefined;
  return {
    verdict,
    code: code.toLowerCase(),
    ...(note !== undefined && { note: note.slice(0, MAX_NOTE) }),
  };
}
