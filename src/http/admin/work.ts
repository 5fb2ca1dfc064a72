import { Hono } from "hono";
import { z } from "zod";
import { showActivity } from "../../operate/watch/activity.ts";
import {
  RETRIED_DELIVERIES,
  RETRIED_RUNS,
  replayMany,
  retryDeliveries,
  retryRuns,
} from "../../operate/records/bulk.ts";
import { explainEvent } from "../../operate/records/explain.ts";
import * as failures from "../../operate/watch/failures.ts";
import { listEvents } from "../../operate/records/list-events.ts";
import * as records from "../../operate/records/records.ts";
import * as sessions from "../../operate/records/sessions.ts";
import { describeGateways, listFindings } from "../../operate/watch/system.ts";
import type { AdminDeps } from "../../operate/types.ts";
import type { Clock } from "../../core/clock.ts";
import { refuse } from "../../operate/records/operation.ts";
import { DELIVERY_STATES, OUTCOMES } from "../../vocabulary/outcomes.ts";
import { runStatus } from "../openapi/schemas.ts";
import { answerLines, endAt, flag, jsonBody, limit, ok, page, query, since } from "./query.ts";

const text = z.string().optional();
const origin = z.enum(["main", "hook", "api", "channel", "schedule"]).optional();
const TURN = "write the number of a turn, as `next` has it";
const turnNumber = z.coerce.number(TURN).int(TURN).min(1, TURN);
const dryRun = z.boolean().default(false);
const REASON = "say why, in 1 to 500 characters";
const reason = z.string(REASON).trim().min(1, REASON).max(500, REASON);
const SEARCH = "write words or field:value, in 1 to 500 characters";
const replay = z.strictObject({
  dryRun,
  action: z.int().positive().optional(),
  body: z.base64().optional(),
});
const sessionName = z.strictObject({
  agent: z.string().min(1).optional(),
  origin,
  key: z.string().min(1),
  path: text,
  credential: text,
});

const MAX_IDS = 10_000;

/** The fields of every retry and replay of many. With `ids` there are no filters. */
const retried = (clock: Clock) => ({
  ids: z.array(z.string().min(1)).min(1).max(MAX_IDS).optional(),
  since: since(clock).optional(),
  until: since(clock).optional(),
  limit: z.int().positive().optional(),
  perSecond: z.number().positive().optional(),
  dryRun,
});

/** The fields that may stand beside `ids`; all others are filters. */
const HOW = ["ids", "select", "perSecond", "dryRun"];

/** @throws RouseError `usage` if ids and filters are given, so that neither is ignored. */
function checkChoice<T extends { ids?: readonly string[] | undefined }>(bulk: T): T {
  const filters = Object.keys(bulk).filter((name) => !HOW.includes(name));
  if (bulk.ids && filters.length > 0)
    refuse(
      `\`ids\` names what is meant: leave ${filters.map((name) => `\`${name}\``).join(", ")} out`,
    );
  return bulk;
}

/** `/events`: what came in and what became of it, and replays. */
export function eventRoutes(deps: AdminDeps) {
  const { clock } = deps;
  const list = z.strictObject({
    ...page(clock),
    outcome: z.enum(OUTCOMES).optional(),
    path: text,
    mapping: text,
    failed: flag.optional(),
    until: since(clock).optional(),
    search: z.string(SEARCH).trim().min(1, SEARCH).max(500, SEARCH).optional(),
  });
  const select = z.enum(["failed", "unmatched", "all"]);
  const bulk = z.strictObject({
    ...retried(clock),
    select,
    path: text,
    mapping: text,
    outcome: z.enum(OUTCOMES).optional(),
  });
  return new Hono()
    .get("/", query(list), (c) => ok(c, listEvents(deps, endAt("evt", c.req.valid("query")))))
    .get("/:id", (c) => ok(c, records.showEvent(deps, c.req.param("id"))))
    .get("/:id/explain", (c) => ok(c, explainEvent(deps, c.req.param("id"))))
    .post("/replay", jsonBody(bulk), (c) =>
      answerLines(c, replayMany(deps, checkChoice(c.req.valid("json")))),
    )
    .post("/:id/replay", jsonBody(replay), async (c) => {
      const { body, ...options } = c.req.valid("json");
      const edited = body === undefined ? {} : { body: Buffer.from(body, "base64") };
      return ok(c, records.replayEvent(deps, c.req.param("id"), { ...options, ...edited }));
    })
    .post("/:id/discard", jsonBody(z.strictObject({ reason })), (c) =>
      ok(c, records.discardEvent(deps, c.req.param("id"), c.req.valid("json"))),
    );
}

/** `/runs`: what agents did, and how an operator stops or repeats it. */
export function runRoutes(deps: AdminDeps) {
  const until = since(deps.clock).optional();
  const ended = { endedSince: until, endedUntil: until };
  const list = z.strictObject({
    ...page(deps.clock),
    status: runStatus.optional(),
    kind: z.enum(records.LISTED_KINDS).optional(),
    sessionKey: text,
    eventId: text,
    until,
    ...ended,
  });
  const filters = {
    status: z.enum(RETRIED_RUNS).optional(),
    sessionKey: text,
    eventId: text,
    mapping: text,
    ...ended,
  };
  const bulk = z.strictObject({ ...retried(deps.clock), ...filters });
  return new Hono()
    .get("/", query(list), (c) => ok(c, records.listRuns(deps, endAt("run", c.req.valid("query")))))
    .post("/retry", jsonBody(bulk), (c) =>
      answerLines(c, retryRuns(deps, checkChoice(c.req.valid("json")))),
    )
    .get("/:id", (c) => ok(c, records.showRun(deps, c.req.param("id"))))
    .get("/:id/steps", (c) => ok(c, records.showSteps(deps, c.req.param("id"))))
    .get("/:id/results/:result", (c) =>
      ok(c, records.showToolResult(deps, c.req.param("id"), c.req.param("result"))),
    )
    .post("/:id/cancel", (c) => ok(c, records.changeRun(deps, "cancel", c.req.param("id"))))
    .post("/:id/retry", (c) => ok(c, records.changeRun(deps, "retry", c.req.param("id"))));
}

/** `/sessions`: conversations and their history, outside text as it is kept. */
export function sessionRoutes(deps: AdminDeps) {
  const list = z.strictObject({ ...page(deps.clock), origin, agent: text });
  const show = sessionName.extend({ limit, before: turnNumber.optional() });
  return new Hono()
    .get("/", query(list), (c) => ok(c, sessions.listSessions(deps, c.req.valid("query"))))
    .get("/show", query(show), (c) => ok(c, sessions.showSession(deps, c.req.valid("query"))))
    .post("/reset", jsonBody(sessionName), (c) =>
      ok(c, sessions.resetSession(deps, c.req.valid("json"))),
    )
    .delete("/", query(sessionName), (c) =>
      ok(c, sessions.deleteSession(deps, c.req.valid("query"))),
    );
}

/** `/deliveries`: replies on their way, and those that did not arrive. */
export function deliveryRoutes(deps: AdminDeps) {
  const status = z.enum(DELIVERY_STATES).optional();
  const list = z.strictObject({ ...page(deps.clock), status, channel: text });
  const bulk = z.strictObject({
    ...retried(deps.clock),
    status: z.enum(RETRIED_DELIVERIES).optional(),
    channel: text,
  });
  return new Hono()
    .get("/", query(list), (c) => ok(c, records.listDeliveries(deps, c.req.valid("query"))))
    .post("/retry", jsonBody(bulk), (c) =>
      answerLines(c, retryDeliveries(deps, checkChoice(c.req.valid("json")))),
    )
    .get("/:id", (c) => ok(c, records.showDelivery(deps, c.req.param("id"))))
    .post("/:id/retry", query(z.strictObject({ arrived: flag.default(false) })), (c) =>
      ok(c, records.retryDelivery(deps, c.req.param("id"), c.req.valid("query"))),
    );
}

const word = z.string().min(1).optional();

/** `/failures`: failures by their cause, and what is done about them. */
export function failureRoutes(deps: AdminDeps) {
  const list = z.strictObject({
    since: since(deps.clock).prefault("7d"),
    status: z.enum(failures.GROUP_STATUSES).optional(),
    kind: z.enum(["event", "run", "delivery"]).optional(),
    path: word,
    mapping: word,
    sender: word,
    limit,
  });
  const change = z.strictObject({ action: z.enum(failures.GROUP_ACTIONS) });
  return new Hono()
    .get("/", query(list), (c) => ok(c, failures.listFailures(deps, c.req.valid("query"))))
    .get("/:id", (c) => ok(c, failures.showFailure(deps, c.req.param("id"))))
    .post("/:id", jsonBody(change), (c) =>
      ok(c, failures.changeFailure(deps, c.req.param("id"), c.req.valid("json"))),
    );
}

/** The routes of an overview: hooks over time, waiting work, limits, gateways, findings. */
export function overviewRoutes(deps: AdminDeps) {
  const activity = z.strictObject({ since: since(deps.clock).prefault("1h") });
  return new Hono()
    .get("/activity", query(activity), (c) => ok(c, showActivity(deps, c.req.valid("query"))))
    .get("/limits", async (c) => ok(c, { limits: await deps.admission.usage() }))
    .get("/gateways", (c) => ok(c, describeGateways(deps.cluster)))
    .get("/findings", (c) => ok(c, listFindings(deps)));
}
