import { Hono } from "hono";
import { z } from "zod";
import * as channels from "../../operate/people/channels.ts";
import { runChecks } from "../../operate/watch/doctor.ts";
import { createEventFeed } from "../../operate/records/event-feed.ts";
import * as keys from "../../operate/people/keys.ts";
import * as system from "../../operate/watch/system.ts";
import { listSamples, sendHook } from "../../operate/records/send-hook.ts";
import type { AdminDeps } from "../../operate/types.ts";
import { duration, idText } from "../../config/schema/common.ts";
import { CLEANING, SCOPES } from "../../config/schema/gateway.ts";
import { OUTCOMES } from "../../vocabulary/outcomes.ts";
import { showShape } from "../../operate/shapes/shape.ts";
import { answerLines, jsonBody, ok, query, since } from "./query.ts";

const hookPath = z.strictObject({ path: z.string().min(1) });
const LAST = "write a number from 1 to 5000";
const shapeQuery = hookPath.extend({
  last: z.coerce.number(LAST).int(LAST).min(1, LAST).max(5000, LAST).default(500),
});
const secretChoice = hookPath.extend({ id: z.int().positive() });
const message = z.strictObject({
  to: z.string().min(1).optional(),
  text: z.string().min(1).max(2000).default("This is a test from Rouse: the channel works."),
});
const newKey = z.strictObject({
  id: idText,
  tenant: idText.optional(),
  agents: z.array(z.string()).min(1).optional(),
  scopes: z.array(z.enum(SCOPES)).min(1).default(["chat", "agents:read"]),
  rateLimit: z.strictObject({ requests: z.int().positive(), per: duration }).optional(),
  userAsSession: z.boolean().default(false),
  clean: z.enum(CLEANING).default("images"),
});
/** A request as the path's sender would post it. `body` is base64. */
const posted = hookPath.extend({
  body: z.base64().default(""),
  sample: z.string().optional(),
  event: z.string().optional(),
  headers: z.record(z.string(), z.string()).default({}),
});
/** An event that a command of a plugin sends. */
const event = z.strictObject({
  plugin: z.string().min(1),
  path: z.string().min(1),
  body: z.unknown(),
});
const name = z.string().min(1).optional();
const streamQuery = z.strictObject({
  path: name,
  mapping: name,
  outcome: z.enum(OUTCOMES).optional(),
  after: name,
  lines: z.coerce.number().int().min(0).max(50).default(10),
});
const denialQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(1000).default(100),
});

const usageQuery = ({ clock }: AdminDeps) =>
  z.strictObject({
    by: z.enum(system.USAGE_KEYS).default("day"),
    since: since(clock).prefault("30d"),
  });

/** `/channels`: which there are, whether they can be reached, and a test message. */
export function channelRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", (c) => ok(c, channels.listChannels(deps)))
    .get("/status", (c) => ok(c, channels.probeChannels(deps)))
    .post("/:id/test", jsonBody(message), (c) =>
      ok(c, channels.sendTestMessage(deps, c.req.param("id"), c.req.valid("json"))),
    );
}

/** `/keys`: keys of the platform API. A key itself is in one answer only, the one that makes it. */
export function keyRoutes(deps: AdminDeps) {
  return new Hono()
    .get("/", (c) => ok(c, keys.listKeys(deps)))
    .post("/", jsonBody(newKey), (c) => ok(c, keys.createKey(deps, c.req.valid("json"))))
    .delete("/:id", (c) => ok(c, keys.revokeKey(deps, c.req.param("id"))));
}

/** Everything about the gateway itself. */
export function systemRoutes(deps: AdminDeps) {
  const stream = createEventFeed({
    ...deps,
    isShared: deps.cluster.shared,
    isStopping: () => deps.status().draining,
  });
  return new Hono()
    .get("/agents", (c) => ok(c, system.listAgents(deps)))
    .get("/plugins", (c) => ok(c, { plugins: [...deps.snapshot().plugins] }))
    .get("/stream", query(streamQuery), async (c) =>
      answerLines(c, await stream.follow(c.req.valid("query"))),
    )
    .get("/usage", query(usageQuery(deps)), (c) =>
      ok(c, system.readUsage(deps, c.req.valid("query"))),
    )
    .get("/status", (c) => ok(c, system.showStatus(deps)))
    .get("/refusals", query(denialQuery), (c) =>
      ok(c, system.listDenials(deps, c.req.valid("query"))),
    )
    .get("/config", (c) => ok(c, system.showConfig(deps)))
    .get("/doctor", async (c) => ok(c, { checks: await runChecks(deps) }))
    .post("/reload", (c) => ok(c, system.reloadConfig(deps)))
    .post("/store/backup", jsonBody(z.strictObject({ file: z.string().min(1) })), (c) =>
      ok(c, system.backupStore(deps, c.req.valid("json").file)),
    )
    .get("/hooks/shape", query(shapeQuery), async (c) => {
      const { path, last } = c.req.valid("query");
      return ok(c, showShape(deps.store, path, last));
    })
    .get("/hooks/secrets", query(hookPath), (c) =>
      ok(c, system.listSecretCandidates(deps, c.req.valid("query").path)),
    )
    .post("/hooks/secrets", jsonBody(secretChoice), (c) =>
      ok(c, system.acceptSecret(deps, c.req.valid("json"))),
    )
    .post("/hooks/send", jsonBody(event), async (c) => {
      const { plugin, path, body } = c.req.valid("json");
      return ok(c, deps.sendEvent(plugin, path, body, undefined));
    })
    .get("/hooks/samples", query(hookPath), (c) =>
      ok(c, listSamples(deps, c.req.valid("query").path)),
    )
    .post("/hooks/post", jsonBody(posted), (c) => {
      const { body, ...wanted } = c.req.valid("json");
      return ok(c, sendHook(deps, { ...wanted, body: Buffer.from(body, "base64") }));
    });
}
