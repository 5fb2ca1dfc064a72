import { Hono } from "hono";
import { z } from "zod";
import type { Clock } from "../core/clock.ts";
import type { EventRecord, Store } from "../store/types.ts";
import { answer, byId, fail, given, paged } from "./admin-answer.ts";
import { flag, page, parseJson, parseQuery, since } from "./admin-query.ts";
import { replayMany } from "./admin-replay.ts";
import type { ReplayLine } from "./admin-types.ts";
import { eventDetail, eventView } from "./admin-views.ts";
import type { AdminDeps } from "./types.ts";

const outcome = z.enum(["accepted", "skipped", "unmatched", "duplicate", "rejected", "failed"]);
const listQuery = (clock: Clock) =>
  z.strictObject({
    ...page(clock),
    outcome: outcome.optional(),
    path: z.string().optional(),
    mapping: z.string().optional(),
    failed: flag.optional(),
  });
const replayBody = z.strictObject({ dryRun: z.boolean().default(false) });
const bulkBody = (clock: Clock) =>
  z.strictObject({
    select: z.enum(["failed", "unmatched"]),
    path: z.string().optional(),
    since: since(clock).optional(),
    dryRun: z.boolean().default(false),
  });

async function runStatuses(store: Store, event: EventRecord): Promise<Map<string, string>> {
  const statuses = new Map<string, string>();
  for (const action of event.actions) {
    if (action.kind !== "run") continue;
    const run = await store.getRun(action.runId);
    statuses.set(action.runId, run?.status ?? "forgotten");
  }
  return statuses;
}

/** One JSON document a line, made as it is read. */
function lines(source: AsyncIterable<ReplayLine>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const iterator = source[Symbol.asyncIterator]();
  return new ReadableStream(
    {
      async pull(controller) {
        const { done, value } = await iterator.next();
        if (done) controller.close();
        else controller.enqueue(encoder.encode(`${JSON.stringify(value)}\n`));
      },
      async cancel() {
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

/** `/events`: what came in and what became of it, and replays. */
export function eventRoutes(deps: AdminDeps): Hono {
  const { store, clock } = deps;
  const listed = listQuery(clock);
  const bulk = bulkBody(clock);
  const app = new Hono();
  app.get("/", async (c) => {
    const query = parseQuery(c, listed);
    if (!query.ok) return fail(c, query.failure);
    const { failed, limit, ...filters } = query.value;
    const events = await store.listEvents({ ...given(filters), limit: limit + 1, ...(failed ? { failedRuns: true } : {}) });
    const { rows, next } = paged(events, limit, byId);
    return answer(c, "events", { events: rows.map((event) => eventView(event)), next });
  });
  app.get("/:id", async (c) => {
    const event = await store.getEvent(c.req.param("id"));
    if (!event) return fail(c, { code: "not_found", message: "there is no event with this id" });
    return answer(c, "event", { event: eventDetail(event, await runStatuses(store, event)) });
  });
  app.post("/replay", async (c) => {
    const body = await parseJson(c, bulk);
    if (!body.ok) return fail(c, body.failure);
    return c.body(lines(replayMany(deps, body.value)), 200, { "content-type": "application/x-ndjson" });
  });
  app.post("/:id/replay", async (c) => {
    const body = await parseJson(c, replayBody);
    if (!body.ok) return fail(c, body.failure);
    const replayed = await deps.replay(c.req.param("id"), body.value);
    return replayed.ok ? answer(c, "replay", { result: replayed.result }) : fail(c, replayed.failure);
  });
  return app;
}
