import { getVerdicts } from "./approvals.ts";
import { renderVerdict, TIMEOUT } from "../core/decision.ts";
import { getPhrases } from "../core/phrases.ts";
import type { QuestionPhrases } from "../core/phrases/types.ts";
import { cutText, oneLine } from "../core/text.ts";
import type { ApprovalDecision, ApprovalRecord } from "../store/steps.ts";

/** A question must fit one message of every channel; the shortest limit is 2,000 characters. */
const MAX_ARGUMENTS = 900;
const MAX_WHY = 300;
const MAX_NAME = 120;

/** Control characters, and characters that reorder or hide text next to them: arguments may come from outside. */
const DECEPTIVE = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f]/gu;

const showHidden = (text: string): string =>
  text.replace(DECEPTIVE, (sign) => `\\u{${sign.codePointAt(0)?.toString(16)}}`);

/** A name as inline code. */
const renderName = (name: string): string =>
  `\`${cutText(showHidden(oneLine(name)).replaceAll("`", "'"), MAX_NAME).text}\``;

/** A code block that its text cannot end. */
function renderBlock(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}

/** Renders the arguments of a call for people: JSON, cut, with hidden characters shown. */
function renderArguments(input: unknown, code: string, phrases: QuestionPhrases): string {
  const { text, cut } = cutText(
    showHidden(JSON.stringify(input, null, 2) ?? "none"),
    MAX_ARGUMENTS,
  );
  return (
    renderBlock(text) + (cut > 0 ? `\n${phrases.cut(cut, `\`rouse approvals show ${code}\``)}` : "")
  );
}

/** A time to the minute, in UTC. */
const renderTime = (ms: number): string =>
  `${new Date(ms).toISOString().slice(0, 16).replace("T", " ")} UTC`;

/**
 * Renders a question in markdown, in the language of a language tag: what the agent wants to do, with which arguments, why it asks,
 * and when the question expires.
 */
export function renderQuestion(
  { code, agentId, tool, input, reason, why, expiresAt }: ApprovalRecord,
  language?: string,
): string {
  const { questions } = getPhrases(language);
  const [agent, name] = [renderName(agentId), renderName(tool)];
  const head =
    reason === "outcome_unknown"
      ? questions.unknown(code, agent, name)
      : questions.wants(code, agent, name);
  const because = cutText(showHidden(oneLine(why)), MAX_WHY).text;
  return [
    head,
    renderArguments(input, code, questions),
    questions.why(because),
    questions.until(renderTime(expiresAt)),
  ].join("\n\n");
}

/** Renders how to decide by a text message. What is to be written stays English. */
export function renderInstruction(
  approval: Pick<ApprovalRecord, "code" | "reason">,
  language?: string,
): string {
  const { questions } = getPhrases(language);
  const forms = getVerdicts(approval).map(
    (verdict) => `"${renderVerdict(verdict, approval.code)}"`,
  );
  return questions.instruction(`${forms.slice(0, -1).join(", ")} ${questions.or} ${forms.at(-1)}`);
}

/** Begins a word with a capital letter, in languages that have them. */
function capitalize(text: string, locale: string): string {
  const [first = "", ...rest] = text;
  return first.toLocaleUpperCase(locale) + rest.join("");
}

/** Renders the decision, for the message that had the question. */
export function renderEnd({ verdict, by, at }: ApprovalDecision, language?: string): string {
  const { questions, decisions, locale } = getPhrases(language);
  if (by === TIMEOUT) return questions.expired(renderTime(at));
  return questions.ended(
    capitalize(decisions.past[verdict], locale),
    renderName(by),
    renderTime(at),
  );
}
