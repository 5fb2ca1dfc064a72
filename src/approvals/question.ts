import { getVerdicts } from "./approvals.ts";
import { renderVerdict, TIMEOUT } from "../core/decision.ts";
import { cutText, oneLine } from "../core/text.ts";
import type { ApprovalDecision, ApprovalRecord, Verdict } from "../store/steps.ts";

/** A question must fit one message of every channel; the shortest limit is 2,000 characters. */
const MAX_ARGUMENTS = 900;
const MAX_WHY = 300;
const MAX_NAME = 120;

/** Control characters, and characters that reorder or hide text next to them: arguments may come from outside. */
const DECEPTIVE = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f]/gu;

const showHidden = (text: string): string => text.replace(DECEPTIVE, (sign) => `\\u{${sign.codePointAt(0)?.toString(16)}}`);

/** A name as inline code. */
const renderName = (name: string): string => `\`${cutText(showHidden(oneLine(name)).replaceAll("`", "'"), MAX_NAME).text}\``;

/** A code block that its text cannot end. */
function renderBlock(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text}\n${fence}`;
}

/** Renders the arguments of a call for people: JSON, cut, with hidden characters shown. */
function renderArguments(input: unknown, code: string): string {
  const { text, cut } = cutText(showHidden(JSON.stringify(input, null, 2) ?? "none"), MAX_ARGUMENTS);
  return renderBlock(text) + (cut > 0 ? `\n[cut: ${cut} characters; \`rouse approvals show ${code}\` shows them]` : "");
}

/** A time to the minute, in UTC. */
const renderTime = (ms: number): string => `${new Date(ms).toISOString().slice(0, 16).replace("T", " ")} UTC`;

/** Renders a question in markdown: what the agent wants to do, with which arguments, why it asks, and when the question expires. */
export function renderQuestion({ code, agentId, tool, input, reason, why, expiresAt }: ApprovalRecord): string {
  const [agent, name] = [renderName(agentId), renderName(tool)];
  const what =
    reason === "outcome_unknown"
      ? `the agent ${agent} called ${name}, and whether the call took effect is not known.`
      : `the agent ${agent} wants to call ${name}.`;
  const because = cutText(showHidden(oneLine(why)), MAX_WHY).text;
  const head = `**Approval ${code}**: ${what}\n\n${renderArguments(input, code)}`;
  return `${head}\n\nWhy it asks: ${because}\n\nIt waits until ${renderTime(expiresAt)}.`;
}

/** Renders how to decide by a text message. */
export function renderInstruction(approval: Pick<ApprovalRecord, "code" | "reason">): string {
  const forms = getVerdicts(approval).map((verdict) => `"${renderVerdict(verdict, approval.code)}"`);
  return `Reply ${forms.slice(0, -1).join(", ")} or ${forms.at(-1)}.`;
}

const PAST: Record<Verdict, string> = {
  approve: "Approved",
  deny: "Denied",
  repeat: "To be repeated",
  done: "Treated as done",
  give_up: "Given up",
};

/** Renders the decision, for the message that had the question. */
export function renderEnd({ verdict, by, at }: ApprovalDecision): string {
  return by === TIMEOUT ? `**Expired** at ${renderTime(at)}.` : `**${PAST[verdict]}** by ${renderName(by)} at ${renderTime(at)}.`;
}
