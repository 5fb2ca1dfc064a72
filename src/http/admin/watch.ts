import { Hono } from "hono";
import { z } from "zod";
import { showActivity } from "../../operate/watch/activity.ts";
import { GROUP_ACTIONS, UNTIL } from "../../operate/watch/failure-states.ts";
import * as failures from "../../operate/watch/failures.ts";
import { listFindings } from "../../operate/watch/findings.ts";
import { describeGateways } from "../../operate/watch/system.ts";
import type { AdminDeps } from "../../operate/types.ts";
import { GROUP_STATUSES } from "../../operate/watch/watch-views.ts";
import { parseDuration } from "../../config/schema/common.ts";
import { jsonAnswer } from "./answer.ts";
import { jsonBody, limit, parseSince, query, since } from "./query.ts";

const text = z.string().min(1).optional();
const NAME = "write a name of 1 to 100 characters, or null for none";
const VERSION = "write the number of a config";

/** The time from now on that a duration means, or the time that a date names. */
const until = ({ clock }: AdminDeps) =>
  z.string().transform((value, context) => {
    const length = parseDuration(value.trim());
    const at = length === undefined ? parseSince(value.trim(), clock.now()) : clock.now() + length;
    if (at !== undefined) return at;
    context.addIssue({ code: "custom", message: UNTIL });
    return z.NEVER;
  });

/** `/failures`: failures by their cause, and what is done about them. */
export function failureRoutes(deps: AdminDeps) {
  const list = z.strictObject({
    since: since(deps.clock).prefault("7d"),
    status: z.enum(GROUP_STATUSES).optional(),
    kind: z.enum(["event", "run", "delivery"]).optional(),
    path: text,
    mapping: text,
    sender: text,
    assignee: text,
    limit,
  });
  const change = z.strictObject({
    action: z.enum(GROUP_ACTIONS),
    assignee: z.string(NAME).trim().min(1, NAME).max(100, NAME).nullable().optional(),
    until: until(deps).optional(),
    version: z.int(VERSION).positive(VERSION).optional(),
    revision: z.int().min(0).optional(),
  });
  return new Hono()
    .get("/", query(list), (c) => jsonAnswer(c, failures.listFailures(deps, c.req.valid("query"))))
    .get("/:id", (c) => jsonAnswer(c, failures.showFailure(deps, c.req.param("id"))))
    .post("/:id", jsonBody(change), async (c) => {
      const { revision, ...body } = c.req.valid("json");
      return jsonAnswer(c, failures.changeFailure(deps, c.req.param("id"), body, revision));
    });
}

/** What an overview shows: hooks over time, what waits, limits, gateways, and what should be looked at. */
export function overviewRoutes(deps: AdminDeps) {
  const activity = z.strictObject({ since: since(deps.clock).prefault("1h") });
  return new Hono()
    .get("/activity", query(activity), (c) =>
      jsonAnswer(c, showActivity(deps, c.req.valid("query"))),
    )
    .get("/limits", async (c) => jsonAnswer(c, { limits: await deps.limits() }))
    .get("/gateways", (c) => jsonAnswer(c, describeGateways(deps.cluster)))
    .get("/findings", (c) => jsonAnswer(c, listFindings(deps)));
}
