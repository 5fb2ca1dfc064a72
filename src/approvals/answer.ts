import type { Failure } from "../core/errors.ts";
import type { WrittenDecision } from "../core/decision.ts";
import type { ApprovalRecord } from "../store/types.ts";
import type { Approvals } from "./approvals.ts";

/** A decision that a person on a channel wrote or pressed. */
export interface ChannelDecision extends WrittenDecision {
  channel: string;
  /** The person's id, as `IncomingMessage.from` gives it. */
  person: string;
}

/** The answer to a person who may not decide. It is the same if there is no such approval, so that it reveals nothing. */
export const NOT_ALLOWED = "You are not one of the approvers of this agent, so nothing was decided.";

const DONE: Record<WrittenDecision["verdict"], (tool: string) => string> = {
  approve: (tool) => `Approved: ${tool} is called.`,
  deny: (tool) => `Denied: ${tool} is not called.`,
  repeat: (tool) => `${tool} is called once more.`,
  done: (tool) => `The call of ${tool} counts as done.`,
  give_up: (tool) => `Given up: ${tool} is not called again, and the run ends.`,
};

const renderDone = ({ verdict, code }: WrittenDecision, { tool }: ApprovalRecord): string => `${DONE[verdict](`\`${tool}\``)} (${code})`;

function renderRefusal({ message }: Failure): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}

/**
 * Records the decision of a person on a channel, and returns the answer to that person; `ok` says whether the decision was
 * recorded. Throws if the store cannot be reached.
 */
export async function answerDecision(
  { channel, person, verdict, code, note }: ChannelDecision,
  approvals: Pick<Approvals, "decide">,
): Promise<{ ok: boolean; text: string }> {
  const decided = await approvals.decide(code, verdict, `${channel}:${person}`, note);
  if (decided.ok) return { ok: true, text: renderDone({ verdict, code }, decided.approval) };
  const { failure } = decided;
  return { ok: false, text: failure.code === "not_approver" ? NOT_ALLOWED : renderRefusal(failure) };
}
