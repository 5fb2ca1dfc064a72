import type { ApprovalDecision, ApprovalRecord, Store } from "../store/types.ts";

/** An approval whose call a person has approved. */
export type ApprovedCall = ApprovalRecord & { decision: ApprovalDecision };

/** A run has fewer. */
const MAX_APPROVALS = 200;

/** Finds the approval by which a call is made; undefined if no person has approved it. */
export async function findApprovedCall(
  runId: string,
  callId: string,
  store: Pick<Store, "list">,
): Promise<ApprovedCall | undefined> {
  const approvals = await store.list("approvals", { runId, limit: MAX_APPROVALS });
  return approvals.find(
    (one): one is ApprovedCall => one.callId === callId && one.decision?.verdict === "approve",
  );
}
