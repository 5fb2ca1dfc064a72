import type { ConversationMessage } from "../agent/types.ts";
import { toQuestion } from "./channel-input.ts";
import type { SeenBefore } from "./citation-numbers.ts";

/** Words with which a question begins that goes on with the one before, and words that stand for what was named before. */
const BEGINNINGS =
  "and|but|so|also|or|then|und|aber|oder|auch|dann|et|mais|ou|aussi|alors|y|e|o|pero|también|entonces|ma|anche|allora|mas|também|então|en|maar|ook|dan|i|a|ale|też|и|а|но|или|также|тогда|و|لكن|ثم|ve|ama|peki";
const REFERENCES = "it|its|they|them|their|that|those|this|these";
const BEGINS = new RegExp(
  `^(?:${BEGINNINGS}|what about|how about|was ist mit|wie ist es mit|qu'en est-il|qué hay de)(?![\\p{L}\\p{M}])`,
  "iu",
);
const REFERS = new RegExp(`(?<![\\p{L}\\p{M}])(?:${REFERENCES})(?![\\p{L}\\p{M}])`, "iu");
const UNSPACED_BEGINS = /^(?:那么|那|还有|然后|では|じゃあ|それでは|それ|そして|แล้ว)|呢[?？]?$/u;
const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]/u;
const WORD = /[\p{L}\p{N}\p{M}]+/gu;
/** A question of so few words, or characters in scripts without spaces, hardly says what it is about. */
const FEW_WORDS = 2;
const FEW_CHARACTERS = 4;
/** A longer question says itself what it is about. */
const MANY_WORDS = 12;

/** Whether a question needs the one before it to be understood. */
function isFollowUp(question: string): boolean {
  const text = question.trim();
  if (UNSPACED.test(text))
    return (
      text.replaceAll(/[\p{P}\s]/gu, "").length <= FEW_CHARACTERS || UNSPACED_BEGINS.test(text)
    );
  const count = text.match(WORD)?.length ?? 0;
  return count <= FEW_WORDS || (count <= MANY_WORDS && (BEGINS.test(text) || REFERS.test(text)));
}

const getText = (message: ConversationMessage): string =>
  message.role === "user"
    ? message.parts.flatMap((part) => (part.type === "text" ? part.text : [])).join("\n")
    : "";

/** The last question before this one. */
function findEarlier(
  question: string,
  { history = [], messages = [] }: SeenBefore,
): string | undefined {
  const asked = [
    ...history.filter(({ checkpoint }) => !checkpoint).map(({ input }) => toQuestion(input)),
    ...messages.map(getText),
  ];
  return asked
    .map((text) => text.trim())
    .findLast((text) => text !== "" && text !== question.trim());
}

/** Returns what is searched for a question: with the question before, if it goes on with that one. */
export function withEarlierQuestion(question: string, earlier: SeenBefore): string {
  const before =
    question.trim() !== "" && isFollowUp(question) ? findEarlier(question, earlier) : undefined;
  return before === undefined ? question : `${question}\n${before}`;
}
