import { cleanReply } from "../agent/links.ts";
import { stripAck } from "../agent/ack.ts";
import { allowedTools } from "../agent/tools.ts";
import type { TurnInput, TurnResult } from "../agent/types.ts";
import { resolveRoute } from "../delivery/last-route.ts";
import { planDelivery } from "../delivery/deliver.ts";
import type { Job, RouteDecision, RunError, RunRecord, RunStatus } from "../store/types.ts";
import { turnToKeep } from "../sessions/forget.ts";
import { summaryEvent, turnOf } from "./finish.ts";
import type { ActionContext, TurnDeps } from "./types.ts";

/** What a run's job carries. */
export interface RunJob {
  type: "run";
  runId: string;
}

/** Starts without an end after which a run is given up. */
const MAX_CRASHES = 3;
/** Tries of a turn whose provider error may pass. */
const MAX_TRIES = 6;
const FIRST_WAIT_MS = 2_000;
const LONGEST_WAIT_MS = 300_000;

/** How long to wait before a turn is tried again: the provider's own wish, else doubling, with jitter. */
function waitMs(tries: number, wish: number | undefined): number {
  if (wish !== undefined) return wish;
  return Math.min(FIRST_WAIT_MS * 2 ** tries, LONGEST_WAIT_MS) * (0.75 + Math.random() / 2);
}

async function decideRoute(run: RunRecord, context: ActionContext, deps: TurnDeps): Promise<RouteDecision> {
  if (!run.spec.deliver) return { status: "skipped", reason: "deliver is false" };
  const request = { store: deps.store, channels: context.channels, agentId: context.agents.standard.id, channel: run.spec.channel };
  return resolveRoute(run.spec.to === undefined ? request : { ...request, to: run.spec.to });
}

/** Carries out the job of one hook run: turn, summary and delivery. Everything it ends with is one commit. */
export async function executeRun(job: Job, data: RunJob, deps: TurnDeps, signal: AbortSignal): Promise<void> {
  const { store, clock, log } = deps;
  const context = deps.context();
  const run = await store.getRun(data.runId);
  if (!run || run.status === "cancelled" || run.endedAt !== undefined) {
    await store.commit((tx) => tx.completeJob(job), job);
    return;
  }
  if (job.attempts > MAX_CRASHES) {
    await endFailed(job, run, context, deps, "failed", {
      code: "crashed",
      message: `started ${MAX_CRASHES} times without coming to an end`,
    });
    return;
  }
  const agent = context.agents.get(run.spec.session.agentId);
  if (!agent) {
    await endFailed(job, run, context, deps, "failed", { code: "unknown_agent", message: "the agent is no longer in agents.list" });
    return;
  }
  const model = context.models.resolve(run.spec.model ?? agent.model);
  if (!model.ok) {
    await endFailed(job, run, context, deps, "failed", { code: model.code, message: model.message });
    return;
  }
  // A second try keeps the recipient that was fixed before the model first ran.
  const route = run.route ?? (await decideRoute(run, context, deps));
  const startedAt = clock.now();
  const attempts = run.attempts + 1;
  const held = await store.commit(
    (tx) => tx.updateRun(run.id, { status: "running", startedAt, attempts, route, model: model.model.ref }),
    job,
  );
  if (!held) return;
  deps.metrics?.runStarted({ waitSeconds: (startedAt - job.enqueuedAt) / 1000 });
  const input: TurnInput = {
    agent,
    history: await store.getTurns(run.spec.session),
    input: run.spec.input,
    hook: run.spec.hook,
    unsafe: run.spec.unsafe,
    tools: allowedTools(agent, context.config.hooks.tools, true),
    model: model.model,
    timeoutMs: (run.spec.timeoutSeconds ?? context.config.agents.defaults.timeoutSeconds) * 1000,
    signal,
  };
  if (run.spec.instructions !== undefined) input.instructions = run.spec.instructions;
  const thinking = run.spec.thinking ?? agent.thinking;
  if (thinking !== undefined) input.thinking = thinking;
  const result = await context.runtime.runTurn(input);
  const begun = { ...run, attempts, startedAt, route, model: model.model.ref };
  if (result.ok) return endSucceeded(job, begun, context, deps, result);
  log.warn({ runId: run.id, code: result.code, attempts }, "a turn failed");
  return afterFailure(job, begun, context, deps, result, signal);
}

async function afterFailure(
  job: Job,
  run: RunRecord,
  context: ActionContext,
  deps: TurnDeps,
  result: Extract<TurnResult, { ok: false }>,
  signal: AbortSignal,
): Promise<void> {
  const now = deps.clock.now();
  if (result.code === "cancelled" && signal.reason === "drain") {
    // Put back as if it had not begun: the next gateway takes it up.
    await deps.store.commit((tx) => {
      tx.updateRun(run.id, { status: "queued", attempts: run.attempts - 1 });
      tx.retryJob(job, now, { resetAttempts: true });
    }, job);
    return;
  }
  if (result.retryable && run.attempts < MAX_TRIES) {
    const runAt = now + waitMs(run.attempts - 1, result.retryAfterMs);
    await deps.store.commit((tx) => {
      tx.updateRun(run.id, { status: "queued", error: { code: result.code, message: result.message } });
      tx.retryJob(job, runAt, { resetAttempts: true });
    }, job);
    return;
  }
  const status = result.code === "timeout" ? "timed_out" : result.code === "cancelled" ? "cancelled" : "failed";
  await endFailed(job, run, context, deps, status, { code: result.code, message: result.message }, result.warnings);
}

async function endSucceeded(
  job: Job,
  run: RunRecord,
  context: ActionContext,
  deps: TurnDeps,
  result: Extract<TurnResult, { ok: true }>,
): Promise<void> {
  const now = deps.clock.now();
  const cleaned = cleanReply(stripAck(result.text), context.config.hooks.allowedLinkHosts);
  const reply = cleaned.text;
  const warnings = [...run.warnings, ...result.warnings];
  if (cleaned.removedLinks > 0) warnings.push(`${cleaned.removedLinks} links to hosts outside hooks.allowedLinkHosts were removed`);
  const route: RouteDecision =
    run.route?.status === "route" && reply.trim() === ""
      ? { status: "skipped", reason: "there was nothing to send" }
      : (run.route as RouteDecision);
  const planned =
    route.status === "route"
      ? planDelivery({ runId: run.id, route: route.route, text: reply, channels: context.channels, now })
      : undefined;
  const done = await deps.store.commit((tx) => {
    tx.updateRun(run.id, {
      status: "succeeded",
      reply,
      usage: result.usage,
      warnings,
      route,
      endedAt: now,
      error: null,
      ...(planned ? { deliveryId: planned.delivery.id } : {}),
    });
    tx.appendTurn(run.spec.session, turnToKeep(turnOf(run.id, run.spec, now, result.messages), context.config.hooks.retention));
    tx.addSystemEvent(summaryEvent(run, context.agents.standard.id, now, { reply }));
    if (planned) {
      tx.addDelivery(planned.delivery);
      tx.enqueue(planned.job);
    }
    tx.completeJob(job);
  }, job);
  if (done) ended(run, "succeeded", deps);
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
  const done = await deps.store.commit((tx) => {
    tx.updateRun(run.id, { status, error, warnings: [...run.warnings, ...warnings], endedAt: now });
    tx.addSystemEvent(summaryEvent(run, context.agents.standard.id, now, { reason: error.message }));
    tx.completeJob(job);
  }, job);
  if (done) ended(run, status, deps);
}

function ended(run: RunRecord, status: RunStatus, deps: TurnDeps): void {
  deps.metrics?.runEnded({ status, seconds: run.startedAt === undefined ? 0 : (deps.clock.now() - run.startedAt) / 1000 });
  deps.log.info({ runId: run.id, status }, "a run ended");
  deps.onRunEnd(run.id);
  if (run.spec.wakeMode === "now") deps.heartbeat.request();
}
