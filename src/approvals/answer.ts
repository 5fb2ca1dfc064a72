import type { Failure } from "../core/errors.ts";
import { renderVerdict, type WrittenDecision } from "../core/decision.ts";
import { getPhrases } from "../core/phrases.ts";
import type { Phrases } from "../core/phrases/types.ts";
import type { ApprovalRecord } from "../store/types.ts";
import { getVerdicts, type Approvals } from "./approvals.ts";

/** A decision that a person on a channel wrote or pressed. */
export interface ChannelDecision extends WrittenDecision {
  channel: string;
  /** The person's id, as `IncomingMessage.from` gives it. */
  person: string;
}

/** Renders why a decision does not count. Without the approval, the approver has written the code of none. */
function renderRefusal(
  { code: problem }: Failure,
  approval: ApprovalRecord | undefined,
  { decisions }: Phrases,
): string {
  if (problem === "not_approver") return decisions.notAllowed;
  if (!approval) return decisions.noApproval;
  const { code, decision } = approval;
  if (problem === "approval_decided" && decision)
    return decisions.before(
      code,
      decisions.past[decision.verdict],
      decision.by,
      new Date(decision.at).toISOString(),
    );
  if (problem === "approval_expired") return decisions.expired(code);
  if (problem === "run_ended") return decisions.runEnded(code);
  if (problem === "approval_changed") return decisions.changed(code);
  const forms = getVerdicts(approval).map((verdict) => `\`${renderVerdict(verdict, code)}\``);
  return decisions.wrongVerdict(code, forms.join(", "));
}

/**
 * Records the decision of a person on a channel; `ok` says whether it was recorded. `answer` renders the answer to that person in
 * the language of a language tag. Throws if the store cannot be reached.
 */
export async function answerDecision(
  { channel, person, verdict, code, note }: ChannelDecision,
  approvals: Pick<Approvals, "decide">,
): Promise<{ ok: boolean; answer(language?: string): string }> {
  const decided = await approvals.decide(code, verdict, `${channel}:${person}`, note);
  if (!decided.ok)
    return {
      ok: false,
      answer: (language) => renderRefusal(decided.failure, decided.approval, getPhrases(language)),
    };
  const tool = `\`${decided.approval.tool}\``;
  return {
    ok: true,
    answer: (language) => `${getPhrases(language).decisions.made[verdict](tool)} (${code})`,
  };
}
