import type { Planned } from "../delivery/plan.ts";
import type { ApprovalDecision, ApprovalRecord, RunRecord } from "../store/types.ts";

/** Plans the messages about an approval, for the commits that add it or record its decision. */
export interface Questions {
  plan(approval: ApprovalRecord, run: Pick<RunRecord, "id" | "spec">): readonly Planned[];
  planEnd(approvalId: string, decision: ApprovalDecision): Promise<readonly Planned[]>;
}
