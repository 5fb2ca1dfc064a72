import { isDeepStrictEqual } from "node:util";
import type { Failure } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import { StoredList, type StoredListDeps } from "../store/stored-list.ts";
import type { ApprovalRecord, Ms, ApprovalDecision, Reads } from "../store/types.ts";

/** An approval whose call a person has approved. */
type ApprovedCall = ApprovalRecord & { decision: ApprovalDecision };

/** A run has fewer. */
const MAX_APPROVALS = 200;

/** Finds the approval by which a call is made; undefined if no person has approved it. */
export async function findApprovedCall(
  runId: string,
  callId: string,
  store: Reads,
): Promise<ApprovedCall | undefined> {
  const approvals = await store.approvals.list({ runId, limit: MAX_APPROVALS });
  return approvals.find(
    (one): one is ApprovedCall => one.callId === callId && one.decision?.verdict === "approve",
  );
}

/** A standing approval of the calls of one agent and one tool whose arguments match. */
export interface ApprovalRule {
  id: string;
  agentId: string;
  tool: string;
  /** Arguments that must have these values. A call with an argument that the rule does not name does not match. */
  exact: Record<string, unknown>;
  /** Arguments that may have any value, or be absent. */
  any: readonly string[];
  /** The person who approved, and the approval of the call. */
  by: string;
  approvalId: string;
  createdAt: Ms;
}

type NewRule = Pick<ApprovalRule, "agentId" | "tool" | "exact" | "any">;

const toArguments = (input: unknown): Record<string, unknown> | undefined =>
  typeof input === "object" && input !== null && !Array.isArray(input)
    ? (input as Record<string, unknown>)
    : undefined;

/** Builds the rule for calls like that of an approval; `any` names the arguments that may differ. */
export function buildRule(
  { agentId, tool, input, reason }: ApprovalRecord,
  any: readonly string[],
): { ok: true; rule: NewRule } | { ok: false; failure: Failure } {
  const wrong = (message: string) => ({
    ok: false as const,
    failure: { code: "usage" as const, message },
  });
  if (reason === "outcome_unknown")
    return wrong(
      "a call whose outcome is unknown was made already: it cannot be approved permanently",
    );
  const given = toArguments(input);
  if (!given)
    return wrong("the arguments of this call have no names, so no rule can be made of them");
  const names = Object.keys(given);
  const missing = any.find((name) => !names.includes(name));
  if (missing !== undefined)
    return wrong(
      `the call has no argument "${missing.slice(0, 60)}"; it has ${names.length === 0 ? "none" : names.join(", ")}`,
    );
  const exact = Object.fromEntries(Object.entries(given).filter(([name]) => !any.includes(name)));
  return { ok: true, rule: { agentId, tool, exact, any: [...any] } };
}

/** Returns whether a rule covers a call. */
export function coversCall(
  { agentId, tool, exact, any }: NewRule,
  call: Pick<ApprovalRecord, "agentId" | "tool" | "input">,
): boolean {
  const given = toArguments(call.input);
  if (agentId !== call.agentId || tool !== call.tool || !given) return false;
  if (
    Object.entries(exact).some(
      ([name, value]) => !Object.hasOwn(given, name) || !isDeepStrictEqual(given[name], value),
    )
  )
    return false;
  return Object.keys(given).every((name) => Object.hasOwn(exact, name) || any.includes(name));
}

/** Renders a rule: `bank.transfer by the agent main, if to is "ACME" and amount is anything`. */
export function renderRule({ agentId, tool, exact, any }: NewRule): string {
  const conditions = [
    ...Object.entries(exact).map(([name, value]) => `${name} is ${JSON.stringify(value)}`),
    ...any.map((name) => `${name} is anything`),
  ];
  return `${tool} by the agent ${agentId}, if ${conditions.length === 0 ? "it has no arguments" : conditions.join(" and ")}`;
}

/**
 * Creates the rules that were saved with decisions. They are in the store and not in the config: a config file may be
 * read-only, under version control or missing, and all gateways on one database need the same rules.
 */
export function createApprovalRules(deps: StoredListDeps) {
  const stored = new StoredList<ApprovalRule>("tools.rules", deps);
  return {
    list: () => stored.read(),
    add: (rule: NewRule & Pick<ApprovalRule, "by" | "approvalId">) =>
      stored.change<ApprovalRule>((rules) => {
        const createdAt = deps.clock.now();
        const added = { id: newId("rul", createdAt), ...rule, createdAt };
        return { list: [...rules, added], result: added };
      }),
    /** False if there is no such rule. */
    remove: (id: string) => stored.remove((rule) => rule.id === id),
  };
}
