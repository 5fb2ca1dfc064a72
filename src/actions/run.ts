import { disarm } from "../agent/disarm.ts";
import { cleanReply } from "../agent/links.ts";
import { stripAck } from "../agent/ack.ts";
import type { Agent, ResolvedModel, TurnResult } from "../agent/types.ts";
import { backOff } from "../core/backoff.ts";
import { resolveRoute } from "../delivery/last-route.ts";
import { planDelivery, planReply, writeDelivery, type Planned } from "../delivery/plan.ts";
import { NO_ROUTE } from "../store/types.ts";
import type { Job, Parked, RouteDecision, RunError, RunRecord, RunStatus } from "../store/types.ts";
import { turnToKeep } from "../sessions/forget.ts";
import { resetHistory } from "./commands.ts";
import { replyRoute, reportNoRoute, summaryEvent, turnOf, writeEnd } from "./finish.ts";
import { assignSession, openSession } from "./hook-session.ts";
import { withSources } from "./knowledge.ts";
import { tokensOf } from "./limits.ts";
import { takeModelTurn, type AnsweredTurn } from "./turn.ts";
import type { ActionContext, RunJob, TurnDeps } from "./types.ts";

/** Starts without an end after which a run is given up. */
const MAX_CRASHES = 3;
/** The same for a run that never comes as far as its start. */
const MAX_TAKEN = 20;
/** Tries of a turn whose provider error may pass. */
const MAX_TRIES = 6;
const RETRY = { firstMs: 2_000, longestMs: 300_000 };

/** How long to wait before a turn is tried again: the provider's own wish, else doubling, with jitter. */
function waitMs(tries: number, wish: number | undefined): number {
  if (wish !== undefined) return wish;
  return backOff(tries + 1, RETRY) * (0.75 + Math.random() / 2);
}

async function decideRoute(run: RunRecord, context: ActionContext, deps: TurnDeps): Promise<RouteDecision> {
  const back = replyRoute(run.spec);
  if (back) return { status: "route", route: back };
  if (!run.spec.deliver) return { status: "skipped", reason: "deliver is false" };
  const request = { store: deps.store, channels: context.channels, agentId: context.agents.standard.id, channel: run.spec.channel };
  return resolveRoute(run.spec.to === undefined ? request : { ...request, to: run.spec.to });
}

/** Carries out the job of one hook run: turn, summary and delivery. Everything it ends with is one commit. */
export async function executeRun(job: Job, data: RunJob, deps: TurnDeps, signal: AbortSignal): Promise<void> {
  const { store, clock } = deps;
  const context = deps.context();
  const run = await store.getRun(data.runId);
  if (!run || run.status === "cancelled" || run.endedAt !== undefined) {
    await store.commit((tx) => tx.completeJob(job), job);
    return;
  }
  if (run.spec.command !== undefined) return resetHistory(job, run, deps);
  if (await assignSession(job, run, context, store)) return;
  const giveUp = async (error: RunError): Promise<void> => {
    await endFailed(job, run, context, deps, "failed", error);
    deps.admission.over(run, { tokens: 0, again: false });
  };
  // Being taken from the queue is no start: only one that is on disk has been cut off.
  const cutOff = (run.cutOff ?? 0) + (run.status === "running" ? 1 : 0);
  if (cutOff >= MAX_CRASHES) return giveUp({ code: "crashed", message: `started ${MAX_CRASHES} times without coming to an end` });
  if (job.attempts > MAX_TAKEN) return giveUp({ code: "crashed", message: `taken up ${MAX_TAKEN} times without coming to a start` });
  const agent = context.agents.get(run.spec.session.agentId);
  if (!agent) return giveUp({ code: "unknown_agent", message: "the agent is no longer in agents.list" });
  const model = context.models.resolve(run.spec.model ?? agent.model);
  if (!model.ok) return giveUp({ code: model.code, message: model.message });
  // What the owner says is not counted against the hooks.
  const parked = run.kind === "hook" ? await deps.admission.start(run, clock.now()) : undefined;
  if (parked) return park(job, run, parked, deps);
  let spent: Spent = { tokens: 0, again: true };
  try {
    const warning = await openSession(job, run, store);
    const warnings = warning === undefined ? run.warnings : [...new Set([...run.warnings, warning])];
    spent = await takeTurn(job, { ...run, cutOff, warnings }, agent, model.model, context, deps, signal);
  } finally {
    deps.admission.over(run, spent);
  }
}

/** What a try has used, and whether the run is back in the queue. */
interface Spent {
  tokens: number;
  again: boolean;
}

/** A run that no other has to end for is looked at again then; one that waits for another is called. */
const CALLED_MS = 3_600_000;

async function park(job: Job, run: RunRecord, parked: Parked, { store, clock, admission }: TurnDeps): Promise<void> {
  await store.commit((tx) => {
    tx.updateRun(run.id, { status: "parked", parked, ...(run.status === "running" ? { cutOff: (run.cutOff ?? 0) + 1 } : {}) });
    tx.retryJob(job, parked.until ?? clock.now() + CALLED_MS, { resetAttempts: true });
  }, job);
  await admission.parked?.(run.id);
}

/** Only the owner's direct messages to the main session set the last route: replies to `last` must reach no other person. */
function movesLastRoute({ spec: { session, incoming } }: RunRecord): boolean {
  return session.origin === "main" && incoming?.direct === true && incoming.owner === true;
}

async function takeTurn(
  job: Job,
  run: RunRecord,
  agent: Agent,
  model: ResolvedModel,
  context: ActionContext,
  deps: TurnDeps,
  signal: AbortSignal,
): Promise<Spent> {
  const { store, clock, log } = deps;
  // A second try keeps the recipient that was fixed before the model first ran, if there was one.
  const route = run.route && run.route.status !== NO_ROUTE ? run.route : await decideRoute(run, context, deps);
  const startedAt = clock.now();
  const attempts = run.attempts + 1;
  const begun = { ...run, attempts, startedAt, route, model: model.ref };
  const held = await store.commit((tx) => {
    const { cutOff = 0, warnings } = run;
    tx.updateRun(run.id, { status: "running", startedAt, attempts, cutOff, route, model: model.ref, warnings, parked: null });
    if (movesLastRoute(run) && route.status === "route") tx.setLastRoute({ agentId: agent.id, at: run.createdAt, ...route.route });
  }, job);
  if (!held) return { tokens: 0, again: false };
  deps.metrics?.runStarted({ waitSeconds: (startedAt - job.enqueuedAt) / 1000 });
  const result = await takeModelTurn(run, { agent, model, context, deps, signal });
  if (result.ok) {
    await endSucceeded(job, begun, context, deps, result);
    return { tokens: tokensOf(result), again: false };
  }
  log.warn({ runId: run.id, code: result.code, attempts }, "a turn failed");
  return { tokens: 0, again: await afterFailure(job, begun, context, deps, result, signal) };
}

/** True where the run is back in the queue. */
async function afterFailure(
  job: Job,
  run: RunRecord,
  context: ActionContext,
  deps: TurnDeps,
  result: Extract<TurnResult, { ok: false }>,
  signal: AbortSignal,
): Promise<boolean> {
  const now = deps.clock.now();
  if (result.code === "cancelled" && signal.reason === "drain") {
    // Put back as if it had not begun: the next gateway takes it up.
    await deps.store.commit((tx) => {
      tx.updateRun(run.id, { status: "queued", attempts: run.attempts - 1, cutOff: 0 });
      tx.retryJob(job, now, { resetAttempts: true });
    }, job);
    return true;
  }
  if (result.retryable && run.attempts < MAX_TRIES) {
    const runAt = now + waitMs(run.attempts - 1, result.retryAfterMs);
    await deps.store.commit((tx) => {
      tx.updateRun(run.id, { status: "queued", cutOff: 0, error: { code: result.code, message: result.message } });
      tx.retryJob(job, runAt, { resetAttempts: true });
    }, job);
    return true;
  }
  const status = result.code === "timeout" ? "timed_out" : result.code === "cancelled" ? "cancelled" : "failed";
  await endFailed(job, run, context, deps, status, { code: result.code, message: result.message }, result.warnings);
  return false;
}

async function endSucceeded(job: Job, run: RunRecord, context: ActionContext, deps: TurnDeps, result: AnsweredTurn): Promise<void> {
  const now = deps.clock.now();
  const cleaned = cleanReply(stripAck(result.text), context.config.hooks.allowedLinkHosts);
  const reply = cleaned.text;
  const warnings = [...run.warnings, ...result.warnings];
  if (cleaned.removedLinks > 0) warnings.push(`${cleaned.removedLinks} links to hosts outside hooks.allowedLinkHosts were removed`);
  const route: RouteDecision =
    run.route?.status !== "skipped" && reply.trim() === ""
      ? { status: "skipped", reason: "there was nothing to send" }
      : (run.route as RouteDecision);
  const shown = withSources(reply, result.citations);
  const text = run.spec.marker === undefined ? shown : `${shown}\n\n${run.spec.marker}`;
  const planned = planReply(run, route, { text, channels: context.channels, now });
  const end = {
    status: "succeeded" as const,
    reply,
    usage: result.usage,
    warnings,
    route,
    endedAt: now,
    ...(planned ? { deliveryId: planned.delivery.id } : {}),
  };
  const done = await deps.store.commit((tx) => {
    writeEnd(tx, run, end, { context, now, ...(planned ? { delivery: planned.delivery } : {}) });
    tx.appendTurn(run.spec.session, turnToKeep(turnOf(run.id, run.spec, now, result.messages), context.config.hooks.retention));
    if (run.kind === "hook") tx.addSystemEvent(summaryEvent(run, context.agents.standard.id, now, { reply }));
    if (planned) writeDelivery(tx, planned);
    tx.completeJob(job);
  }, job);
  if (!done) return;
  if (planned?.delivery.error) reportNoRoute(run, planned, context, deps);
  ended(run, "succeeded", deps);
}

/** Who writes on a channel waits for an answer: a turn that failed says so there. */
function apologyFor({ id, kind, spec, route }: RunRecord, error: RunError, { channels }: ActionContext, now: number): Planned | undefined {
  const back = route?.status === "route" ? route.route : replyRoute(spec);
  if (kind !== "channel" || !back) return undefined;
  // An error's message may quote the provider.
  const text = disarm(`I could not answer that: ${error.message} (${id})`);
  return planDelivery({ runId: id, route: back, text, channels, now });
}

async function endFailed(
  job: Job,
  run: RunRecord,
  context: ActionContext,
  deps: TurnDeps,
  status: RunStatus,
  error: RunError,
  warnings: readonly string[] = [],
): Promise<void> {
  const now = deps.clock.now();
  const apology = status === "cancelled" ? undefined : apologyFor(run, error, context, now);
  const end = {
    status,
    error,
    warnings: [...run.warnings, ...warnings],
    endedAt: now,
    ...(apology ? { deliveryId: apology.delivery.id } : {}),
  };
  const done = await deps.store.commit((tx) => {
    writeEnd(tx, run, end, { context, now });
    if (run.kind === "hook") tx.addSystemEvent(summaryEvent(run, context.agents.standard.id, now, { reason: error.message }));
    if (apology) writeDelivery(tx, apology);
    tx.completeJob(job);
  }, job);
  if (done) ended(run, status, deps);
}

function ended(run: RunRecord, status: RunStatus, deps: TurnDeps): void {
  deps.metrics?.runEnded({ status, seconds: run.startedAt === undefined ? 0 : (deps.clock.now() - run.startedAt) / 1000 });
  deps.log.info({ runId: run.id, status }, "a run ended");
  deps.onRunEnd(run.id);
  if (run.kind === "hook" && run.spec.wakeMode === "now") deps.heartbeat.request();
}
