import type { Planned } from "../delivery/plan.ts";
import type { ApprovalDecision, ApprovalRecord, RunRecord } from "../store/types.ts";

/** What asks people about approvals, for the commits that add one or decide about one. */
export interface Questions {
  plan(approval: ApprovalRecord, run: Pick<RunRecord, "id" | "spec">): readonly Planned[];
  planEnd(approvalId: string, decision: ApprovalDecision): Promise<readonly Planned[]>;
}
