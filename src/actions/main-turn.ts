import { parseAck } from "../agent/ack.ts";
import { cleanReply } from "../agent/links.ts";
import type { TurnResult } from "../agent/types.ts";
import { backOff } from "../core/backoff.ts";
import { newId } from "../core/ids.ts";
import { plainText } from "../core/text.ts";
import { resolveRoute } from "../delivery/last-route.ts";
import { planReply, writeDelivery } from "../delivery/plan.ts";
import { isHopeless, renderBatch, selectBatch } from "../sessions/events.ts";
import type { HeartbeatJob } from "../sessions/heartbeat.ts";
import { turnToKeep } from "../sessions/forget.ts";
import { mainSession } from "../sessions/keys.ts";
import type { Job, RouteDecision, RunRecord, RunSpec, RunStatus, SystemEvent } from "../store/types.ts";
import { reportNoRoute, turnOf } from "./finish.ts";
import { withSources } from "./knowledge.ts";
import { takeModelTurn, type AnsweredTurn, type ModelTurn } from "./turn.ts";
import type { ActionContext, TurnDeps } from "./types.ts";

const HEARTBEAT_RULES =
  "This is a heartbeat: look at the system events and do what your instructions say about them. Where nothing needs the owner's attention, reply only HEARTBEAT_OK.";
const MAX_QUEUE = 200;
const RETRY = { firstMs: 5_000, longestMs: 600_000 };

function specOf(agentId: string, batch: readonly SystemEvent[], context: ActionContext): RunSpec {
  const { heartbeat } = context.config.agents.defaults;
  const spec: RunSpec = {
    session: mainSession(agentId),
    name: "Heartbeat",
    hook: "heartbeat",
    input: batch.length > 0 ? renderBatch(batch) : [{ text: "Nothing has been queued since the last heartbeat.", outside: false }],
    instructions: [HEARTBEAT_RULES, heartbeat.instructions].filter(Boolean).join("\n"),
    wakeMode: "next-heartbeat",
    deliver: true,
    channel: heartbeat.channel,
    unsafe: false,
  };
  if (heartbeat.to !== undefined) spec.to = heartbeat.to;
  return spec;
}

/** The end of a heartbeat: where its reply goes, and what is kept of it. */
async function decideReply(run: RunRecord, { text, citations }: AnsweredTurn, context: ActionContext, deps: TurnDeps) {
  const { heartbeat } = context.config.agents.defaults;
  const ack = parseAck(text, heartbeat.ackMaxChars);
  if (ack.acknowledged) return { reply: text, route: { status: "skipped", reason: "only an acknowledgement" } as RouteDecision };
  const reply = cleanReply(ack.text, context.config.hooks.allowedLinkHosts).text;
  if (reply.trim() === "") return { reply, route: { status: "skipped", reason: "there was nothing to send" } as RouteDecision };
  const route = await resolveRoute({
    store: deps.store,
    channels: context.channels,
    agentId: run.spec.session.agentId,
    channel: run.spec.channel,
    ...(run.spec.to === undefined ? {} : { to: run.spec.to }),
  });
  const shown = withSources(reply, citations);
  return { reply, route, planned: planReply(run, route, { text: shown, channels: context.channels, now: deps.clock.now() }) };
}

/** Carries out a heartbeat's job: one turn over the queued system events, which stay queued until it has succeeded. */
export async function executeHeartbeat(job: Job, data: HeartbeatJob, deps: TurnDeps, signal: AbortSignal): Promise<void> {
  const context = deps.context();
  const { store, clock } = deps;
  const agent = context.agents.get(data.agentId);
  const queued = await store.queuedSystemEvents(data.agentId, MAX_QUEUE);
  const { heartbeat } = context.config.agents.defaults;
  if (!agent || (queued.length === 0 && heartbeat.instructions === undefined)) {
    await store.commit((tx) => tx.completeJob(job), job);
    deps.heartbeat.ended();
    return requestForLeft(data.agentId, deps);
  }
  const batch = selectBatch(queued);
  const startedAt = clock.now();
  const spec = specOf(agent.id, batch, context);
  const run: RunRecord = {
    id: newId("run", startedAt),
    eventId: null,
    kind: "heartbeat",
    status: "running",
    spec,
    warnings: [],
    attempts: job.attempts,
    restarts: 0,
    createdAt: startedAt,
    startedAt,
  };
  const model = context.models.resolve(heartbeat.model ?? agent.model);
  let result: ModelTurn;
  if (model.ok) {
    run.model = model.model.ref;
    // Without events there is nothing to look up: the input only says so.
    const question = plainText(batch.flatMap((event) => event.text));
    result = await takeModelTurn(run, { agent, model: model.model, context, deps, signal, question });
  } else result = { ok: false, code: model.code, message: model.message, retryable: false, warnings: [] };
  if (result.ok) await succeeded(job, run, batch, result, context, deps);
  else await failed(job, run, batch, result, deps, signal);
}

async function succeeded(
  job: Job,
  run: RunRecord,
  batch: readonly SystemEvent[],
  result: AnsweredTurn,
  context: ActionContext,
  deps: TurnDeps,
): Promise<void> {
  const now = deps.clock.now();
  const { reply, route, planned } = await decideReply(run, result, context, deps);
  const done = await deps.store.commit((tx) => {
    tx.insertRun({
      ...run,
      status: "succeeded",
      reply,
      usage: result.usage,
      warnings: result.warnings,
      route,
      endedAt: now,
      ...(planned ? { deliveryId: planned.delivery.id } : {}),
    });
    tx.appendTurn(run.spec.session, turnToKeep(turnOf(run.id, run.spec, now, result.messages), context.config.hooks.retention));
    tx.setSystemEvents(
      batch.map((event) => event.id),
      { state: "done" },
    );
    if (planned) writeDelivery(tx, planned);
    tx.completeJob(job);
  }, job);
  if (done && planned?.delivery.error) reportNoRoute(run, planned, context, deps);
  finish(run, "succeeded", deps, done);
  await requestForLeft(run.spec.session.agentId, deps);
}

/** Wakes that came while the heartbeat was under way could not ask for one more: its job was there. */
async function requestForLeft(agentId: string, deps: TurnDeps): Promise<void> {
  const left = await deps.store.queuedSystemEvents(agentId, MAX_QUEUE);
  if (left.some((event) => event.mode === "now")) deps.heartbeat.request();
}

async function failed(
  job: Job,
  run: RunRecord,
  batch: readonly SystemEvent[],
  result: Extract<TurnResult, { ok: false }>,
  deps: TurnDeps,
  signal: AbortSignal,
): Promise<void> {
  const now = deps.clock.now();
  if (result.code === "cancelled" && signal.reason === "drain") {
    await deps.store.commit((tx) => tx.retryJob(job, now, { resetAttempts: true }), job);
    return;
  }
  const ids = batch.map((event) => event.id);
  const parked = isHopeless(batch);
  const failures = batch[0]?.failures ?? 0;
  const status: RunStatus = result.code === "timeout" ? "timed_out" : "failed";
  const done = await deps.store.commit((tx) => {
    tx.insertRun({ ...run, status, error: { code: result.code, message: result.message }, warnings: result.warnings, endedAt: now });
    tx.setSystemEvents(ids, parked ? { state: "parked", failed: true } : { failed: true });
    if (parked) {
      const text = `The system event ${ids[0]} was parked: heartbeats that saw it failed ${failures + 1} times. \`rouse events\` and \`rouse doctor\` show it.`;
      tx.addSystemEvent({
        id: newId("sev", now),
        agentId: run.spec.session.agentId,
        at: now,
        text: [{ text, outside: false }],
        source: "heartbeat",
        mode: "next-heartbeat",
        unsafe: false,
      });
    }
    const runAt = parked ? now : now + (result.retryAfterMs ?? backOff(failures + 1, RETRY));
    tx.retryJob(job, runAt, { resetAttempts: true });
  }, job);
  deps.log.warn({ runId: run.id, code: result.code, events: ids.length, parked }, "a heartbeat failed; its events stay queued");
  if (done) deps.metrics?.runEnded({ status, seconds: (now - (run.startedAt ?? now)) / 1000 });
}

function finish(run: RunRecord, status: RunStatus, deps: TurnDeps, done: boolean): void {
  if (done) deps.metrics?.runEnded({ status, seconds: (deps.clock.now() - (run.startedAt ?? 0)) / 1000 });
  deps.heartbeat.ended();
}
