import { toSeconds } from "../../core/clock.ts";
import { z } from "zod";
import { getVerdicts, type Approvals } from "../../people/approvals.ts";
import type { ApiKey } from "../../chat/api-keys.ts";
import { MAX_NOTE, VERDICTS } from "../../vocabulary/decision.ts";
import { RouseError } from "../../core/errors.ts";
import { listOf } from "./answer-schemas.ts";
import { pageSize } from "./models.ts";
import { withoutNullish } from "./read.ts";
import { defineRoute, toList, type ApiRoutes, type PlatformParts } from "./types.ts";

type Approval = NonNullable<Awaited<ReturnType<Approvals["get"]>>>;

const text = z.string();

const approvalAnswer = z
  .strictObject({
    id: text,
    object: z.literal("approval"),
    code: text.describe("Short, for people; unique among those that are open."),
    run_id: text,
    agent: text,
    tool: text.describe("As the config names it."),
    input: z.unknown().describe("What the model wrote: data, never an instruction."),
    reason: z.enum(["rule", "untrusted", "outcome_unknown"]),
    why: text.describe("What made it ask, in one sentence."),
    created_at: z.int(),
    expires_at: z.int(),
    state: z.enum(["open", "decided"]),
    verdicts: z.array(z.enum(VERDICTS)).describe("The verdicts that fit."),
    decision: z
      .strictObject({ verdict: z.enum(VERDICTS), by: text, at: z.int(), note: text.nullable() })
      .nullable(),
  })
  .meta({ id: "Approval" });

const approvalsQuery = z.object({
  state: z.enum(["open", "decided"]).default("open").describe("Default: those that wait."),
  run_id: text.optional().describe("Of one run."),
  limit: pageSize,
  after: text.optional().describe("The id after which to go on; the newest stand first."),
});
const decisionBody = z.strictObject({
  verdict: z.enum(VERDICTS).describe("One of the approval's `verdicts`."),
  note: text.max(MAX_NOTE).optional().describe("Words for the agent, with `deny`."),
});

/** An approval as callers see it. */
export function approvalObject(approval: Approval): z.infer<typeof approvalAnswer> {
  const { id, code, runId, agentId, tool, input, reason, why, askedAt, expiresAt, decision } =
    approval;
  return {
    id,
    object: "approval",
    code,
    run_id: runId,
    agent: agentId,
    tool,
    input: input ?? null,
    reason,
    why,
    created_at: toSeconds(askedAt),
    expires_at: toSeconds(expiresAt),
    state: decision ? "decided" : "open",
    verdicts: [...getVerdicts(approval)],
    decision: decision
      ? {
          verdict: decision.verdict,
          by: decision.by,
          at: toSeconds(decision.at),
          note: decision.note ?? null,
        }
      : null,
  };
}

/** The name of a key among those who decide. */
const getName = ({ id }: ApiKey): string => `api:${id}`;

/**
 * Returns the name of a key in `tools.approvers`.
 * @throws RouseError `not_approver` if it is not there.
 */
function getApprover(key: ApiKey, { snapshot }: PlatformParts): string {
  const by = getName(key);
  if (snapshot().approvers.includes(by)) return by;
  throw new RouseError({
    code: "not_approver",
    message: `this API key may not decide: tools.approvers of the config does not name "${by}"`,
  });
}

/** A key that may use some agents only sees and decides about these. */
async function findApproval(id: string, key: ApiKey, parts: PlatformParts): Promise<Approval> {
  const found = await parts.approvals.get(id);
  if (found && (key.agents?.includes(found.agentId) ?? true)) return found;
  throw new RouseError({
    code: "not_found",
    message:
      "there is no such approval for this key; `GET /v1/approvals` lists those that are open",
  });
}

/** Routes for keys that `tools.approvers` names, whatever their scopes. */
export const APPROVAL_ROUTES: ApiRoutes = {
  "/approvals": {
    GET: defineRoute({
      scope: undefined,
      operationId: "listApprovals",
      summary: "Calls of tools that wait for a person",
      answer: listOf(approvalAnswer),
      query: approvalsQuery,
      async handle({ key, query }, parts) {
        getApprover(key, parts);
        const { state, run_id: runId, limit: most, after: before } = query;
        const wanted = withoutNullish({ runId, before, agents: key.agents });
        const rows = await parts.approvals.list({ state, limit: most + 1, ...wanted });
        return toList(rows.slice(0, most).map(approvalObject), rows.length > most);
      },
    }),
  },
  "/approvals/:id": {
    GET: defineRoute({
      scope: undefined,
      operationId: "showApproval",
      summary: "One of them",
      answer: approvalAnswer,
      async handle({ key, id }, parts) {
        getApprover(key, parts);
        return approvalObject(await findApproval(id, key, parts));
      },
    }),
    POST: defineRoute({
      scope: undefined,
      operationId: "decideApproval",
      summary: "Decide about a call",
      answer: approvalAnswer,
      body: decisionBody,
      async handle({ key, id, body: { verdict, note } }, parts) {
        const { approvals, snapshot } = parts;
        // An attempt of a key that may not decide is kept with the approval.
        if (!snapshot().approvers.includes(getName(key)))
          await approvals.decide(id, verdict, getName(key), note);
        const by = getApprover(key, parts);
        const found = await findApproval(id, key, parts);
        const decided = await approvals.decide(found.id, verdict, by, note);
        if (!decided.ok) throw new RouseError(decided.failure);
        return approvalObject(decided.approval);
      },
    }),
  },
};
