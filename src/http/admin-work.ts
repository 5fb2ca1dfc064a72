import { Hono } from "hono";
import { z } from "zod";
import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import { sessionId, type RunRecord, type SessionRef } from "../store/types.ts";
import { answer, byId, fail, given, paged } from "./admin-answer.ts";
import { page, parseJson, parseQuery, type Parsed } from "./admin-query.ts";
import { deliveryView, queuedView, runDetail, runView, sessionView, turnView, unusedSession } from "./admin-views.ts";
import type { AdminDeps } from "./types.ts";

const runStatus = z.enum(["parked", "collecting", "queued", "running", "succeeded", "failed", "timed_out", "cancelled"]);
const origin = z.enum(["main", "hook", "api", "channel"]);
const runQuery = (clock: Clock) =>
  z.strictObject({
    ...page(clock),
    status: runStatus.optional(),
    sessionKey: z.string().optional(),
    eventId: z.string().optional(),
  });
const deliveryQuery = (clock: Clock) =>
  z.strictObject({
    ...page(clock),
    status: z.enum(["pending", "delivered", "failed", "no_route", "unknown"]).optional(),
    channel: z.string().optional(),
  });
const sessionQuery = (clock: Clock) => z.strictObject({ ...page(clock), origin: origin.optional(), agent: z.string().optional() });
const sessionRef = z.strictObject({
  agent: z.string().min(1).optional(),
  origin: origin.optional(),
  key: z.string().min(1),
  path: z.string().optional(),
  credential: z.string().optional(),
});
type Wanted = z.output<typeof sessionRef>;

const noRun: Failure = { code: "not_found", message: "there is no run with this id" };
const noDelivery: Failure = { code: "not_found", message: "there is no delivery with this id" };
const noSession: Failure = { code: "not_found", message: "there is no such session; `rouse sessions list` shows which there are" };
const severalSessions = (owners: readonly string[]): Failure => ({
  code: "usage",
  message: `several paths have a session with this key: name one by \`path\`, and by \`credential\` if that is not enough: ${owners.join(", ")}`,
});
const keepMain: Failure = { code: "usage", message: "the main session cannot be deleted; reset it to forget its history" };

/** `/runs`: what agents did, and an operator's word in it. */
export function runRoutes(deps: AdminDeps): Hono {
  const { store, clock } = deps;
  const listed = runQuery(clock);
  const app = new Hono();
  const delivery = async (run: RunRecord) => (run.deliveryId === undefined ? undefined : store.getDelivery(run.deliveryId));
  app.get("/", async (c) => {
    const query = parseQuery(c, listed);
    if (!query.ok) return fail(c, query.failure);
    const { limit, ...filters } = query.value;
    const { rows, next } = paged(await store.listRuns({ ...given(filters), limit: limit + 1 }), limit, byId);
    return answer(c, "runs", { runs: await Promise.all(rows.map(async (run) => runView(run, await delivery(run)))), next });
  });
  app.get("/:id", async (c) => {
    const run = await store.getRun(c.req.param("id"));
    return run ? answer(c, "run", { run: runDetail(run, await delivery(run)) }) : fail(c, noRun);
  });
  for (const operation of ["cancel", "retry"] as const) {
    app.post(`/:id/${operation}`, async (c) => {
      const done = await deps.runs[operation](c.req.param("id"));
      return done.ok ? answer(c, "run", { run: runDetail(done.run, await delivery(done.run)) }) : fail(c, done.failure);
    });
  }
  return app;
}

/** `/sessions`: conversations and their history, outside text as it is kept. */
export function sessionRoutes(deps: AdminDeps): Hono {
  const { store, clock } = deps;
  const listed = sessionQuery(clock);
  const app = new Hono();
  /** The sessions that may be meant; no hook may have a key of the API's or a channel's. */
  const candidates = async ({ agent, origin, key, path, credential }: Wanted): Promise<SessionRef[]> => {
    const { list, standard } = deps.snapshot().agents;
    // A key of the API names its agent.
    const [, , ofApi] = /^api:([^:]+):([^:]+):/.exec(key) ?? [];
    if (ofApi !== undefined && (origin ?? "api") === "api") return [{ agentId: agent ?? ofApi, origin: "api", key }];
    if (key.startsWith("channel:") && (origin ?? "channel") === "channel")
      return (agent === undefined ? list.map(({ id }) => id) : [agent]).map((agentId) => ({ agentId, origin: "channel", key }));
    const agentId = agent ?? standard.id;
    const inferred = origin ?? (key === "main" ? "main" : "hook");
    if (inferred !== "hook") return [{ agentId, origin: inferred, key }];
    const refs = (await store.sessionsWithKey(agentId, key)).map(({ ref }) => ref);
    const shared = path === undefined && credential === undefined ? refs.find(({ via }) => !via) : undefined;
    if (shared) return [shared];
    return refs.filter(({ via }) => (path ?? via?.path) === via?.path && (credential ?? via?.credential) === via?.credential);
  };
  const find = async (parsed: Parsed<Wanted>): Promise<Parsed<SessionRef>> => {
    if (!parsed.ok) return parsed;
    const refs = await candidates(parsed.value);
    const owners = refs.flatMap(({ via }) => (via ? [`${via.path} (${via.credential})`] : []));
    if (owners.length > 1) return { ok: false, failure: severalSessions(owners) };
    for (const ref of refs) if (ref.origin === "main" || (await store.getSession(ref))) return { ok: true, value: ref };
    return { ok: false, failure: noSession };
  };
  app.get("/", async (c) => {
    const query = parseQuery(c, listed);
    if (!query.ok) return fail(c, query.failure);
    const { agent: agentId, limit, ...filters } = query.value;
    const sessions = await store.listSessions({ ...given({ ...filters, agentId }), limit: limit + 1 });
    const { rows, next } = paged(sessions, limit, ({ ref }) => sessionId(ref));
    return answer(c, "sessions", { sessions: rows.map(sessionView), next });
  });
  app.get("/show", async (c) => {
    const found = await find(parseQuery(c, sessionRef));
    if (!found.ok) return fail(c, found.failure);
    const ref = found.value;
    const [session, turns] = await Promise.all([store.getSession(ref), store.getTurns(ref)]);
    const isMain = ref.origin === "main";
    const queued = isMain ? await store.queuedSystemEvents(ref.agentId, 500) : [];
    const routes = isMain ? await store.lastRoutes(ref.agentId) : [];
    return answer(c, "session", {
      session: session ? sessionView(session) : unusedSession(ref),
      turns: turns.map(turnView),
      queued: queued.map(queuedView),
      lastRoutes: routes.map(({ channel, to, at }) => ({ channel, to, at: new Date(at).toISOString() })),
    });
  });
  app.post("/reset", async (c) => {
    const found = await find(await parseJson(c, sessionRef));
    if (!found.ok) return fail(c, found.failure);
    await store.commit((tx) => tx.resetSession(found.value));
    return c.json({ ok: true });
  });
  app.delete("/", async (c) => {
    const found = await find(parseQuery(c, sessionRef));
    if (!found.ok) return fail(c, found.failure);
    if (found.value.origin === "main") return fail(c, keepMain);
    await store.commit((tx) => tx.deleteSession(found.value));
    return c.json({ ok: true });
  });
  return app;
}

/** `/deliveries`: replies on their way, and those that did not arrive. */
export function deliveryRoutes(deps: AdminDeps): Hono {
  const { store, clock } = deps;
  const listed = deliveryQuery(clock);
  const app = new Hono();
  app.get("/", async (c) => {
    const query = parseQuery(c, listed);
    if (!query.ok) return fail(c, query.failure);
    const { limit, ...filters } = query.value;
    const { rows, next } = paged(await store.listDeliveries({ ...given(filters), limit: limit + 1 }), limit, byId);
    return answer(c, "deliveries", { deliveries: rows.map(deliveryView), next });
  });
  app.get("/:id", async (c) => {
    const delivery = await store.getDelivery(c.req.param("id"));
    return delivery ? answer(c, "delivery", { delivery: deliveryView(delivery) }) : fail(c, noDelivery);
  });
  app.post("/:id/retry", async (c) => {
    const retried = await deps.retryDelivery(c.req.param("id"));
    return retried.ok ? answer(c, "delivery", { delivery: deliveryView(retried.delivery) }) : fail(c, retried.failure);
  });
  return app;
}
