import type { Approvals, Decided } from "../../people/approvals.ts";
import { buildRule, renderRule, type ApprovalRule } from "../../people/rules.ts";
import { readMonotonic } from "../../core/clock.ts";
import { OPERATOR } from "../../config/schema/tools.ts";
import type { ApprovalRecord, Lists, Reads, Verdict } from "../../store/types.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { byId, found, searchPage, unwrap, type PageQuery } from "../records/operation.ts";
import type { AdminDeps } from "../types.ts";
import { approvalView, iso, type ApprovalView } from "../records/views.ts";

export type { ApprovalView } from "../records/views.ts";

export type RuleView = ReturnType<typeof ruleView>;

function ruleView({ createdAt, ...rule }: ApprovalRule) {
  return { ...rule, any: [...rule.any], text: renderRule(rule), createdAt: iso(createdAt) };
}

const getApproval = async (approvals: Approvals, idOrCode: string): Promise<ApprovalRecord> =>
  found(await approvals.get(idOrCode), unknownId("approval", idOrCode));

const withRun = async (store: Reads, approval: ApprovalRecord): Promise<ApprovalView> =>
  approvalView(approval, await store.runs.get(approval.runId));

/** Lists approvals, newest first. */
export async function listApprovals(
  { store }: AdminDeps,
  query: PageQuery<Lists["approvals"]["of"]>,
) {
  const { rows, ...page } = await searchPage(store, "approvals", query, byId);
  return { approvals: await Promise.all(rows.map((row) => withRun(store, row))), ...page };
}

const LOOK_MS = 250;

interface CountQuery {
  /** The count that is known already: the answer waits until there is another one. */
  not?: number | undefined;
  /** The longest wait for the answer, in seconds. */
  wait: number;
  signal: AbortSignal;
}

/** Counts the calls that wait for a person. */
export async function countOpen(
  { store, clock, status }: AdminDeps,
  { not, wait, signal }: CountQuery,
) {
  const until = readMonotonic(clock) + wait * 1000;
  for (;;) {
    const { "approvals.open": open = 0 } = await store.counts();
    if (open !== not || readMonotonic(clock) >= until || signal.aborted || status().draining)
      return { open };
    await clock.sleep(LOOK_MS, signal);
  }
}

/** @throws RouseError `not_found` */
export async function showApproval({ approvals, store }: AdminDeps, idOrCode: string) {
  return { approval: await withRun(store, await getApproval(approvals, idOrCode)) };
}

/** The decision of an operator. `always` makes a rule of it; `any` names the arguments that may differ. */
interface OperatorDecision {
  verdict: Verdict;
  note?: string | undefined;
  always?: { any: readonly string[] } | undefined;
}

/**
 * Returns the rule that `always` would save, in words.
 * @throws RouseError `not_found`, or `usage` if no rule can be made.
 */
export async function previewRule(
  { approvals }: AdminDeps,
  idOrCode: string,
  any: readonly string[],
) {
  return { rule: renderRule(unwrap(buildRule(await getApproval(approvals, idOrCode), any)).rule) };
}

/**
 * Decides as the operator, and with `always` saves the rule.
 * @throws RouseError `not_found`, `not_approver`, `approval_decided`, `approval_expired`, `approval_changed`, `run_ended` or `usage`
 */
export async function decideApproval(
  { approvals, rules, store }: AdminDeps,
  idOrCode: string,
  { verdict, note, always }: OperatorDecision,
) {
  const rule =
    always && verdict === "approve"
      ? unwrap(buildRule(await getApproval(approvals, idOrCode), always.any)).rule
      : undefined;
  const { approval } = unwrap<Extract<Decided, { ok: true }>>(
    await approvals.decide(idOrCode, verdict, OPERATOR, note),
  );
  const added = rule && (await rules.add({ ...rule, by: OPERATOR, approvalId: approval.id }));
  return { approval: await withRun(store, approval), rule: added ? ruleView(added) : null };
}

export async function listRules({ rules }: AdminDeps) {
  return { rules: (await rules.list()).map(ruleView) };
}

/** @throws RouseError `not_found` */
export async function removeRule({ rules }: AdminDeps, id: string): Promise<void> {
  found((await rules.remove(id)) || undefined, unknownId("approval rule", id));
}
