import type { Context } from "hono";
import { z } from "zod";
import { getVerdicts, type Approvals } from "../../approvals/approvals.ts";
import { MAX_NOTE, VERDICTS } from "../../core/decision.ts";
import { sends } from "../openapi/operation.ts";
import { ProblemError, toProblem } from "./problems.ts";
import { readCheckedBody, readQuery } from "./read.ts";
import {
  defineRoute,
  jsonResponse,
  problems,
  type ApiRoutes,
  type PlatformEnv,
  type PlatformParts,
} from "./types.ts";

type Approval = NonNullable<Awaited<ReturnType<Approvals["get"]>>>;

const text = z.string();
const seconds = (ms: number): number => Math.floor(ms / 1000);

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
const approvalsAnswer = z.strictObject({
  object: z.literal("list"),
  data: z.array(approvalAnswer),
  has_more: z.boolean(),
});

const MAX_LIMIT = 100;
const RANGE = `write a number from 1 to ${MAX_LIMIT}`;
const approvalsQuery = z.object({
  state: z.enum(["open", "decided"]).default("open").describe("Default: those that wait."),
  run_id: text.optional().describe("Of one run."),
  limit: z.coerce
    .number(RANGE)
    .int(RANGE)
    .min(1, RANGE)
    .max(MAX_LIMIT, RANGE)
    .default(20)
    .describe("How many, at most 100; default 20."),
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
    created_at: seconds(askedAt),
    expires_at: seconds(expiresAt),
    state: decision ? "decided" : "open",
    verdicts: [...getVerdicts(approval)],
    decision: decision
      ? {
          verdict: decision.verdict,
          by: decision.by,
          at: seconds(decision.at),
          note: decision.note ?? null,
        }
      : null,
  };
}

/** The name of a key among those who decide. */
const getName = (c: Context<PlatformEnv>): string => `api:${c.get("caller").key.id}`;
const isApprover = (c: Context<PlatformEnv>, { snapshot }: PlatformParts): boolean =>
  snapshot().approvers.includes(getName(c));

/**
 * Returns the name of a key in `tools.approvers`.
 * @throws ProblemError `not_approver` if it is not there.
 */
function getApprover(c: Context<PlatformEnv>, parts: PlatformParts): string {
  const by = getName(c);
  if (isApprover(c, parts)) return by;
  throw new ProblemError(
    toProblem({
      code: "not_approver",
      message: `this API key may not decide: tools.approvers of the config does not name "${by}"`,
    }),
  );
}

/** A key that may use some agents only sees and decides about these. */
const isVisible = (c: Context<PlatformEnv>, { agentId }: Approval): boolean =>
  c.get("caller").key.agents?.includes(agentId) ?? true;

async function findApproval(
  c: Context<PlatformEnv>,
  { approvals }: PlatformParts,
): Promise<Approval> {
  const found = await approvals.get(c.req.param("id") ?? "");
  if (found && isVisible(c, found)) return found;
  throw new ProblemError(
    toProblem({
      code: "not_found",
      message:
        "there is no such approval for this key; `GET /v1/approvals` lists those that are open",
    }),
  );
}

/** `GET /v1/approvals` */
async function listApprovals(c: Context<PlatformEnv>, parts: PlatformParts): Promise<Response> {
  getApprover(c, parts);
  const { state, run_id: runId, limit, after: before } = readQuery(c, approvalsQuery);
  const { agents } = c.get("caller").key;
  const page = {
    state,
    limit: limit + 1,
    ...(runId !== undefined && { runId }),
    ...(before !== undefined && { before }),
  };
  const rows = await parts.approvals.list({ ...page, ...(agents && { agents }) });
  return jsonResponse(c, {
    object: "list",
    data: rows.slice(0, limit).map(approvalObject),
    has_more: rows.length > limit,
  });
}

/** `GET /v1/approvals/{id}` */
async function showApproval(c: Context<PlatformEnv>, parts: PlatformParts): Promise<Response> {
  getApprover(c, parts);
  return jsonResponse(c, approvalObject(await findApproval(c, parts)));
}

/** `POST /v1/approvals/{id}` */
async function decideApproval(c: Context<PlatformEnv>, parts: PlatformParts): Promise<Response> {
  const { approvals, snapshot } = parts;
  const { body } = await readCheckedBody(c, snapshot(), decisionBody);
  // What a key tries that may not decide stays with the approval.
  if (!isApprover(c, parts))
    await approvals.decide(c.req.param("id") ?? "", body.verdict, getName(c), body.note);
  const by = getApprover(c, parts);
  const { id } = await findApproval(c, parts);
  const decided = await approvals.decide(id, body.verdict, by, body.note);
  if (!decided.ok) throw new ProblemError(toProblem(decided.failure));
  return jsonResponse(c, approvalObject(decided.approval));
}

const ID = { requestParams: { path: z.object({ id: text }) } };
const MISSING = { "404": "It is not there for this key." };

/** Routes for keys that `tools.approvers` names, whatever their scopes. */
export const APPROVAL_ROUTES: ApiRoutes = {
  "/approvals": {
    GET: defineRoute(
      undefined,
      listApprovals,
      ["listApprovals", "Calls of tools that wait for a person", approvalsAnswer],
      {
        requestParams: { query: approvalsQuery },
        responses: problems({ "400": "A parameter is wrong." }),
      },
    ),
  },
  "/approvals/:id": {
    GET: defineRoute(undefined, showApproval, ["showApproval", "One of them", approvalAnswer], {
      ...ID,
      responses: problems(MISSING),
    }),
    POST: defineRoute(
      undefined,
      decideApproval,
      ["decideApproval", "Decide about a call", approvalAnswer],
      {
        ...ID,
        requestBody: sends(decisionBody),
        responses: problems({
          "400": "Something in the request is wrong, or the verdict does not fit.",
          ...MISSING,
          "408": "The body took too long.",
          "409":
            "It was decided before, its time is over, its run has ended, or the call has changed.",
          "413": "The body is too large.",
          "415": "The content type is not JSON.",
        }),
      },
    ),
  },
};
