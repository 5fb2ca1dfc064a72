import { Hono } from "hono";
import { z } from "zod";
import { replayMany } from "../../operate/records/bulk-replay.ts";
import {
  RETRIED_DELIVERIES,
  RETRIED_RUNS,
  retryDeliveries,
  retryRuns,
} from "../../operate/records/bulk-retry.ts";
import { explainEvent } from "../../operate/records/explain.ts";
import { listEvents } from "../../operate/records/list-events.ts";
import * as records from "../../operate/records/records.ts";
import * as sessions from "../../operate/records/sessions.ts";
import type { AdminDeps } from "../../operate/types.ts";
import type { Clock } from "../../core/clock.ts";
import { RouseError } from "../../core/errors.ts";
import { runStatus } from "../openapi/schemas.ts";
import { jsonAnswer, answerLines } from "./answer.ts";
import { OUTCOMES } from "../../core/outcomes.ts";
import { endAt, flag, jsonBody, limit, page, query, since } from "./query.ts";

const text = z.string().optional();
const origin = z.enum(["main", "hook", "api", "channel", "schedule"]).optional();
const TURN = "write the number of a turn, as `next` has it";
const turnNumber = z.coerce.number(TURN).int(TURN).min(1, TURN);
const dryRun = z.boolean().default(false);
const REASON = "say why, in 1 to 500 characters";
const reason = z.string(REASON).trim().min(1, REASON).max(500, REASON);
const SEARCH = "write words or field:value, in 1 to 500 characters";
const note = z.string().trim().max(500, "write at most 500 characters").optional();
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

/** What every retry and replay of many takes. `ids` names what is meant: then there are no filters. */
const retried = (clock: Clock) => ({
  ids: z.array(z.string().min(1)).min(1).max(MAX_IDS).optional(),
  since: since(clock).optional(),
  until: since(clock).optional(),
  limit: z.int().positive().optional(),
  perSecond: z.number().positive().optional(),
  dryRun,
});

/** What goes with `ids`; all else chooses rows by what they are. */
const HOW = ["ids", "select", "perSecond", "dryRun"];

/** @throws RouseError `usage` if ids and filters are given, so that neither is ignored. */
function checkChoice<T extends { ids?: readonly string[] | undefined }>(bulk: T): T {
  const filters = Object.keys(bulk).filter((name) => !HOW.includes(name));
  if (bulk.ids && filters.length > 0)
    throw new RouseError({
      code: "usage",
      message: `\`ids\` names what is meant: leave ${filters.map((name) => `\`${name}\``).join(", ")} out`,
    });
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
    bookmarked: flag.optional(),
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
    .get("/", query(list), (c) =>
      jsonAnswer(c, listEvents(deps, endAt("evt", c.req.valid("query")))),
    )
    .get("/:id", (c) => jsonAnswer(c, records.showEvent(deps, c.req.param("id"))))
    .get("/:id/explain", query(z.strictObject({ now: flag.optional() })), (c) =>
      jsonAnswer(c, explainEvent(deps, c.req.param("id"), c.req.valid("query"))),
    )
    .post("/replay", jsonBody(bulk), (c) =>
      answerLines(c, replayMany(deps, checkChoice(c.req.valid("json")))),
    )
    .post("/:id/replay", jsonBody(replay), async (c) => {
      const { body, ...options } = c.req.valid("json");
      const edited = body === undefined ? {} : { body: Buffer.from(body, "base64") };
      return jsonAnswer(c, records.replayEvent(deps, c.req.param("id"), { ...options, ...edited }));
    })
    .put("/:id/bookmark", jsonBody(z.strictObject({ note })), (c) =>
      jsonAnswer(c, records.bookmarkEvent(deps, c.req.param("id"), c.req.valid("json"))),
    )
    .delete("/:id/bookmark", (c) => jsonAnswer(c, deps.bookmarks.remove(c.req.param("id"))))
    .post("/:id/discard", jsonBody(z.strictObject({ reason })), (c) =>
      jsonAnswer(c, records.discardEvent(deps, c.req.param("id"), c.req.valid("json"))),
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
    .get("/", query(list), (c) =>
      jsonAnswer(c, records.listRuns(deps, endAt("run", c.req.valid("query")))),
    )
    .post("/retry", jsonBody(bulk), (c) =>
      answerLines(c, retryRuns(deps, checkChoice(c.req.valid("json")))),
    )
    .get("/:id", (c) => jsonAnswer(c, records.showRun(deps, c.req.param("id"))))
    .get("/:id/steps", (c) => jsonAnswer(c, records.showSteps(deps, c.req.param("id"))))
    .get("/:id/results/:result", (c) =>
      jsonAnswer(c, records.showToolResult(deps, c.req.param("id"), c.req.param("result"))),
    )
    .post("/:id/cancel", (c) => jsonAnswer(c, records.changeRun(deps, "cancel", c.req.param("id"))))
    .post("/:id/retry", (c) => jsonAnswer(c, records.changeRun(deps, "retry", c.req.param("id"))));
}

/** `/sessions`: conversations and their history, outside text as it is kept. */
export function sessionRoutes(deps: AdminDeps) {
  const list = z.strictObject({ ...page(deps.clock), origin, agent: text });
  const show = sessionName.extend({ limit, before: turnNumber.optional() });
  return new Hono()
    .get("/", query(list), (c) => jsonAnswer(c, sessions.listSessions(deps, c.req.valid("query"))))
    .get("/show", query(show), (c) =>
      jsonAnswer(c, sessions.showSession(deps, c.req.valid("query"))),
    )
    .post("/reset", jsonBody(sessionName), (c) =>
      jsonAnswer(c, sessions.resetSession(deps, c.req.valid("json"))),
    )
    .delete("/", query(sessionName), (c) =>
      jsonAnswer(c, sessions.deleteSession(deps, c.req.valid("query"))),
    );
}

/** `/deliveries`: replies on their way, and those that did not arrive. */
export function deliveryRoutes(deps: AdminDeps) {
  const status = z.enum(["pending", "delivered", "failed", "no_route", "unknown"]).optional();
  const list = z.strictObject({ ...page(deps.clock), status, channel: text });
  const bulk = z.strictObject({
    ...retried(deps.clock),
    status: z.enum(RETRIED_DELIVERIES).optional(),
    channel: text,
  });
  return new Hono()
    .get("/", query(list), (c) => jsonAnswer(c, records.listDeliveries(deps, c.req.valid("query"))))
    .post("/retry", jsonBody(bulk), (c) =>
      answerLines(c, retryDeliveries(deps, checkChoice(c.req.valid("json")))),
    )
    .get("/:id", (c) => jsonAnswer(c, records.showDelivery(deps, c.req.param("id"))))
    .post("/:id/retry", query(z.strictObject({ arrived: flag.default(false) })), (c) =>
      jsonAnswer(c, records.retryDelivery(deps, c.req.param("id"), c.req.valid("query"))),
    );
}
