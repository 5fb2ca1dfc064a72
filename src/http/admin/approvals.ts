import { Hono } from "hono";
import { z } from "zod";
import * as approvals from "../../operate/people/approvals.ts";
import type { AdminDeps } from "../../operate/types.ts";
import { MAX_NOTE, VERDICTS } from "../../core/decision.ts";
import { jsonAnswer } from "./answer.ts";
import { jsonBody, page, query } from "./query.ts";

const any = z.array(z.string().min(1)).default([]);

/** `/approvals`: tool calls that wait for a person, decisions about them, and the rules that were made of decisions. */
export function approvalRoutes(deps: AdminDeps) {
  const list = z.strictObject({
    ...page(deps.clock),
    state: z.enum(["open", "decided"]).optional(),
    runId: z.string().optional(),
  });
  const count = z.strictObject({
    not: z.coerce.number().int().min(0).optional(),
    wait: z.coerce.number().min(0).max(60).default(0),
  });
  const decision = z.strictObject({
    verdict: z.enum(VERDICTS),
    note: z.string().max(MAX_NOTE).optional(),
    always: z.strictObject({ any }).optional(),
  });
  return new Hono()
    .get("/", query(list), (c) =>
      jsonAnswer(c, approvals.listApprovals(deps, c.req.valid("query"))),
    )
    .get("/count", query(count), (c) =>
      jsonAnswer(
        c,
        approvals.countOpen(deps, { ...c.req.valid("query"), signal: c.req.raw.signal }),
      ),
    )
    .get("/rules", (c) => jsonAnswer(c, approvals.listRules(deps)))
    .delete("/rules/:id", (c) => jsonAnswer(c, approvals.removeRule(deps, c.req.param("id"))))
    .get("/:id", (c) => jsonAnswer(c, approvals.showApproval(deps, c.req.param("id"))))
    .post("/:id/rule", jsonBody(z.strictObject({ any })), (c) =>
      jsonAnswer(c, approvals.previewRule(deps, c.req.param("id"), c.req.valid("json").any)),
    )
    .post("/:id", jsonBody(decision), (c) =>
      jsonAnswer(c, approvals.decideApproval(deps, c.req.param("id"), c.req.valid("json"))),
    );
}
