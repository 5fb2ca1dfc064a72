import { Hono } from "hono";
import { z } from "zod";
import * as approvals from "../../operate/people/approvals.ts";
import * as memory from "../../operate/people/memory.ts";
import * as people from "../../operate/people/people.ts";
import * as schedules from "../../operate/people/schedules.ts";
import { listTools, testTool } from "../../operate/people/tools.ts";
import type { AdminDeps } from "../../operate/types.ts";
import { MAX_NOTE, VERDICTS } from "../../vocabulary/decision.ts";
import { MAX_NOTE_CHARS } from "../../people/notes.ts";
import { jsonBody, limit, ok, page, query } from "./query.ts";

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
    .get("/", query(list), (c) => ok(c, approvals.listApprovals(deps, c.req.valid("query"))))
    .get("/count", query(count), (c) =>
      ok(c, approvals.countOpen(deps, { ...c.req.valid("query"), signal: c.req.raw.signal })),
    )
    .get("/rules", (c) => ok(c, approvals.listRules(deps)))
    .delete("/rules/:id", (c) => ok(c, approvals.removeRule(deps, c.req.param("id"))))
    .get("/:id", (c) => ok(c, approvals.showApproval(deps, c.req.param("id"))))
    .post("/:id/rule", jsonBody(z.strictObject({ any })), (c) =>
      ok(c, approvals.previewRule(deps, c.req.param("id"), c.req.valid("json").any)),
    )
    .post("/:id", jsonBody(decision), (c) =>
      ok(c, approvals.decideApproval(deps, c.req.param("id"), c.req.valid("json"))),
    );
}

/** `/pairings`: people who have asked to write to the agent on a channel, and decisions about them. */
export function pairingRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", (c) => ok(c, people.listPairings(deps)))
    .post("/:id", jsonBody(z.strictObject({ verdict: z.enum(["approve", "deny"]) })), (c) =>
      ok(c, people.decidePairing(deps, c.req.param("id"), c.req.valid("json").verdict)),
    )
    .delete("/:id", (c) => ok(c, people.revokePairing(deps, c.req.param("id"))));
}

/** `/people`: people who have linked several channels, and those whom the config names. */
export function peopleRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", (c) => ok(c, people.listAddresses(deps)))
    .delete("/:id", (c) => ok(c, people.unlinkPerson(deps, c.req.param("id"))));
}

const noteText = z.strictObject({ text: z.string().trim().min(1).max(MAX_NOTE_CHARS) });
const noteQuery = z.strictObject({
  limit,
  agent: z.string().min(1).optional(),
  session: z.string().min(1).optional(),
});
const noteOwner = z.strictObject({
  agent: z.string().min(1).optional(),
  session: z.string().min(1),
});

/** `/memory`: what agents have noted about people and rooms. */
export function memoryRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", query(noteQuery), (c) => ok(c, memory.listNotes(deps, c.req.valid("query"))))
    .delete("/", query(noteOwner), (c) => ok(c, memory.deleteNotes(deps, c.req.valid("query"))))
    .patch("/:id", jsonBody(noteText), (c) =>
      ok(c, memory.editNote(deps, c.req.param("id"), c.req.valid("json").text)),
    )
    .delete("/:id", (c) => ok(c, memory.deleteNote(deps, c.req.param("id"))));
}

/** `/schedules`: when agents start by themselves, their heartbeats among it. */
export function scheduleRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", (c) => ok(c, schedules.listSchedules(deps)))
    .get("/:agent/:id", (c) =>
      ok(c, schedules.showSchedule(deps, c.req.param("agent"), c.req.param("id"))),
    )
    .delete("/:agent/:id", (c) =>
      ok(c, schedules.removeSchedule(deps, c.req.param("agent"), c.req.param("id"))),
    )
    .post("/:agent/:id/run", (c) =>
      ok(c, schedules.runSchedule(deps, c.req.param("agent"), c.req.param("id"))),
    );
}

const toolQuery = z.strictObject({ agent: z.string().min(1).optional() });
const toolCall = z.strictObject({ arguments: z.record(z.string(), z.unknown()).default({}) });

/** `/tools`: which tools agents are offered, and a call of one. */
export function toolRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", query(toolQuery), (c) => ok(c, listTools(deps, c.req.valid("query").agent)))
    .post("/:id/test", jsonBody(toolCall), async (c) => {
      const { signal } = c.req.raw;
      const { arguments: input } = c.req.valid("json");
      return ok(c, testTool(deps, { tool: c.req.param("id"), input, signal }));
    });
}
