/** All that a run ends with: its reply and the route of it, its receipt, and the news for the callers that wait. */
import type { RunStatus } from "../vocabulary/outcomes.ts";
import { cleanReply } from "../agent/reply/disarm.ts";
import { readMonotonic } from "../core/clock.ts";
import { resolveRoute } from "../delivery/channels.ts";
import {
  planCallback,
  planRemoval,
  planReply,
  attachFiles,
  writeDelivery,
  type AttachedFile,
  type Planned,
} from "../delivery/plan.ts";
import type { PartContext } from "../store/context.ts";
import { newDeliveryRecord, withChange } from "../store/sql/rows.ts";
import {
  NO_ROUTE,
  turnToKeep,
  type Ms,
  type NewDelivery,
  type NewTurn,
  type ReplyTarget,
  type Route,
  type RouteDecision,
  type RunChange,
  type RunError,
  type RunRecord,
  type Writes,
} from "../store/types.ts";
import type { ExecutorDeps } from "./context.ts";
import { replyRoute } from "./channel/channel-input.ts";
import { addRunUsage, commitEnd, endHold, persist } from "./journal.ts";
import { withSources, type NamedCitation } from "./knowledge.ts";
import { runReceipt } from "./receipts.ts";
import type { AnsweredTurn, ModelTurn, Try } from "./try.ts";
import type { ActionContext, RunEnds } from "./types.ts";

/** Adds to the commit that ends a run, or its try: the message with the turn's text is deleted. */
export function writeRemoval(tx: Writes, run: RunRecord, now: Ms): void {
  const { id: runId } = run;
  if (run.kind !== "channel" || !run.live) return;
  writeDelivery(tx, planRemoval(run.live, { runId, route: replyRoute(run.spec), now }));
  tx.runs.update(runId, { live: null });
}

/** The delivery of an answer, which replaces the message with the turn's text. */
export function replaceLive(planned: Planned, run: RunRecord): Planned {
  if (run.kind !== "channel" || !run.live || !planned.job) return planned;
  return { ...planned, delivery: { ...planned.delivery, live: run.live } };
}

/** Plans the callback of a run that has ended, if its mapping has one. `delivery` is that of the reply. */
function planReceipt(
  run: RunRecord,
  context: ActionContext,
  now: number,
  delivery?: NewDelivery,
): Planned | undefined {
  if (run.mapping === undefined) return undefined;
  const callback = context.mappings.settings(run.mapping)?.callback;
  if (!callback) return undefined;
  const full = context.config.hooks.receipts === "full";
  const receipt = {
    ok: true,
    run: runReceipt(run, delivery && newDeliveryRecord(delivery), full),
  };
  return planCallback({ runId: run.id, mapping: run.mapping, url: callback.url, receipt, now });
}

/** Writes the end of a run: its state and, if the mapping has a callback, the delivery of its receipt. */
export function writeEnd(
  tx: Writes,
  run: RunRecord,
  end: RunChange & { endedAt: Ms; status: RunStatus },
  { context, now, delivery }: { context: ActionContext; now: number; delivery?: NewDelivery },
): void {
  const ended = { ...end, error: end.error ?? null };
  const callback = planReceipt(withChange(run, ended), context, now, delivery);
  tx.runs.update(run.id, {
    ...endHold(run, end.endedAt),
    ...ended,
    ...(callback ? { callbackId: callback.delivery.id } : {}),
  });
  if (callback) writeDelivery(tx, callback);
}

/** The most failed model calls that a run keeps: the newest. */
const MAX_ATTEMPTS = 100;

/**
 * Returns what a run keeps of the model calls at which a try ended. With `hooks.retention` 0 it keeps nothing that a provider
 * said.
 */
export function keepFailedAttempts(
  run: RunRecord,
  result: ModelTurn,
  { config }: ActionContext,
): Pick<RunRecord, "failedAttempts"> {
  const failed = result.ok ? [] : (result.failedAttempts ?? []);
  if (failed.length === 0) return {};
  const kept = failed.map(({ error: { code, message, vendor }, ...attempt }) => ({
    ...attempt,
    error: { code, message, ...(vendor && config.hooks.retention > 0 && { vendor }) },
  }));
  return { failedAttempts: [...(run.failedAttempts ?? []), ...kept].slice(-MAX_ATTEMPTS) };
}

/** Appends a run's turn to its session. */
export function appendTurn(
  tx: Writes,
  run: RunRecord,
  { messages, context = [] }: Pick<AnsweredTurn, "messages" | "context">,
  { config }: ActionContext,
  now: number,
): void {
  const { id, kind, mapping, spec, boundaryId } = run;
  const turn: NewTurn = {
    runId: id,
    at: now,
    hook: spec.hook,
    input: spec.input,
    unsafe: kind === "hook" && spec.unsafe,
    messages,
    ...(context.length > 0 && { context }),
    ...(boundaryId !== undefined && { boundaryId }),
    ...(kind === "hook" && { trustedHook: mapping ?? spec.hook }),
  };
  tx.sessions.addTurn(spec.session, turnToKeep(turn, config.hooks.retention));
}

/** Decides where a run's reply goes, or why it goes nowhere. */
export async function decideRoute(
  { route }: RunRecord,
  wanted: {
    /** The conversation that the reply goes back to. */
    back?: Route | undefined;
    /** The target that the run asks for otherwise; absent if its reply is not sent. */
    target?: ReplyTarget | undefined;
    /** The agent whose owner reads the reply. */
    agentId: string;
  },
  { channels, agents }: ActionContext,
  { store }: ExecutorDeps,
): Promise<RouteDecision> {
  // A second try keeps the recipient that was fixed before the model first ran, if there was one.
  if (route && route.status !== NO_ROUTE) return route;
  const { back, target, agentId } = wanted;
  if (back) return { status: "route", route: back };
  if (!target) return { status: "skipped", reason: "deliver is false" };
  const { id: defaultId } = agents.default;
  // As long as the owner has not written to an agent, its replies go where the owner wrote to the first agent.
  const isKnown =
    agentId === defaultId || (await store.sessions.listLastRoutes(agentId)).length > 0;
  return resolveRoute({ store, channels, agentId: isKnown ? agentId : defaultId, ...target });
}

/** A reply without links to hosts that `hooks.allowedLinkHosts` leaves out, and the warning that says so. */
export function cleanAnswer(
  text: string,
  { config }: ActionContext,
): { reply: string; warnings: string[] } {
  const cleaned = cleanReply(text, config.hooks.allowedLinkHosts);
  const warning = `links removed, since hooks.allowedLinkHosts does not have their hosts: ${cleaned.removedLinks}`;
  return { reply: cleaned.text, warnings: cleaned.removedLinks > 0 ? [warning] : [] };
}

/** Plans what becomes of an answer: the reply as the run keeps it, and its delivery with the sources that it names. */
export function planAnswer(
  run: RunRecord,
  {
    text,
    citations,
    route: decided,
    target,
    files = [],
  }: {
    text: string;
    citations: readonly NamedCitation[];
    route: RouteDecision;
    /** The target that the run asks for: a reply without a route keeps it. */
    target?: ReplyTarget | undefined;
    files?: readonly AttachedFile[];
  },
  context: ActionContext,
  now: Ms,
) {
  const { reply, warnings } = cleanAnswer(text, context);
  const isEmpty = decided.status !== "skipped" && reply.trim() === "" && files.length === 0;
  const route: RouteDecision = isEmpty
    ? { status: "skipped", reason: "there was nothing to send" }
    : decided;
  const shown = withSources(reply, citations);
  const marker = run.kind === "hook" ? run.spec.marker : undefined;
  const marked = marker === undefined ? shown : `${shown}\n\n${marker}`;
  const { channels } = context;
  const planned = planReply(run.id, route, { text: marked, channels, now, target });
  return { change: { reply, route }, warnings, planned: planned && attachFiles(planned, files) };
}

/** Counts and logs a reply that has no route. */
function reportNoRoute(run: RunRecord, { delivery }: Planned, deps: ExecutorDeps): void {
  deps.metrics.deliveryEnded({ channel: delivery.route.channel, status: NO_ROUTE });
  deps.log.warn(
    {
      mapping: run.mapping,
      hook: run.spec.hook,
      runId: run.id,
      deliveryId: delivery.id,
      reason: delivery.error?.message,
    },
    "a reply has no route: it is kept, and `rouse deliveries retry --status no_route` sends it once there is one",
  );
}

/** The status that a run ends with. */
export function getRunStatus(result: ModelTurn): RunStatus {
  if (result.ok) return "succeeded";
  return result.code === "timeout"
    ? "timed_out"
    : result.code === "cancelled"
      ? "cancelled"
      : "failed";
}

/** The part of a failure that the run keeps. */
export const toRunError = ({ code, message, provider, vendor }: RunError): RunError => ({
  code,
  message,
  ...(provider !== undefined && { provider }),
  ...(vendor && { vendor }),
});

/** Returns the usage of a run and the model that answered last. A run that failed has used what its steps have. */
function getUsed(result: ModelTurn, current: Try): Pick<RunRecord, "usage" | "model"> {
  if (result.ok) return { usage: result.usage, model: result.model };
  const last = current.steps.at(-1);
  if (last) return { usage: addRunUsage(current), model: last.model };
  return current.summaryUsage ? { usage: current.summaryUsage } : {};
}

/** Returns the usage of a run that goes back into the queue: limits count it from now on. */
export const getUsedSoFar = (
  current: Pick<Try, "steps" | "summaryUsage">,
): Pick<RunRecord, "usage"> =>
  current.steps.length > 0 || current.summaryUsage ? { usage: addRunUsage(current) } : {};

/** Between looks for the end of a run that another gateway may execute. */
const LOOK_MS = 500;

/** Creates what lets callers wait for the ends of runs. */
export function createRunEnds({ store, cluster, clock, ended: { signal } }: PartContext): RunEnds {
  const waiting = new Map<string, Set<() => void>>();
  return {
    ended(runId) {
      for (const done of waiting.get(runId) ?? []) done();
    },
    async wait(runId, ms) {
      const over = new AbortController();
      const done = (): void => over.abort();
      const listeners = waiting.get(runId) ?? new Set();
      waiting.set(runId, listeners.add(done));
      signal.addEventListener("abort", done, { once: true });
      try {
        for (const until = readMonotonic(clock) + ms; !over.signal.aborted;) {
          const leftMs = until - readMonotonic(clock);
          if (leftMs <= 0 || (await store.runs.get(runId))?.endedAt !== undefined) return;
          if (!cluster.shared) return await clock.sleep(leftMs, over.signal);
          await clock.sleep(Math.min(leftMs, LOOK_MS), over.signal);
        }
      } finally {
        signal.removeEventListener("abort", done);
        listeners.delete(done);
        if (listeners.size === 0) waiting.delete(runId);
      }
    },
  };
}

/** Writes the end of a run and all that follows from it, in one commit. */
export async function endRun(result: ModelTurn, current: Try): Promise<void> {
  const { kind, deps, run, isStored, steps } = current;
  const { context, job } = kind;
  const now = deps.clock.now();
  const status = getRunStatus(result);
  const used = getUsed(result, current);
  current.end = { status, usage: used.usage, ...(!result.ok && { error: result.code }) };
  const {
    change,
    warnings = [],
    planned: made,
    write,
    after,
  } = await persist(current, () => kind.finish(run, result, now, steps));
  // Only an answer replaces the message that showed its text.
  const planned = made && result.ok ? replaceLive(made, run) : made;
  const end = {
    status,
    endedAt: now,
    warnings: [...run.warnings, ...result.warnings, ...warnings],
    ...used,
    ...(result.ok
      ? {}
      : { error: toRunError(result), ...keepFailedAttempts(run, result, context) }),
    ...(planned ? { deliveryId: planned.delivery.id } : {}),
    ...change,
    ...(run.kind === "channel" && run.live && { live: null }),
  };
  const writeAll = (tx: Writes): void => {
    if (isStored)
      writeEnd(tx, run, end, { context, now, ...(planned ? { delivery: planned.delivery } : {}) });
    else tx.runs.add(withChange(run, end));
    if (result.ok && result.lastStep) tx.steps.add(result.lastStep);
    if (planned) writeDelivery(tx, planned);
    if (!planned?.delivery.live) writeRemoval(tx, run, now);
    write(tx);
  };
  const isWritten = async (): Promise<boolean> =>
    (await deps.store.runs.get(run.id))?.endedAt === now;
  const done = await persist(
    current,
    () => commitEnd(run, writeAll, { ...deps, now, held: job, by: "gateway", steps }),
    {
      isWritten,
      written: true,
    },
  );
  if (done) {
    deps.metrics.runEnded({ status, seconds: (now - (run.startedAt ?? now)) / 1000 });
    const { mapping = "", spec } = run;
    if (used.model !== undefined)
      deps.metrics.modelUsed({
        agent: spec.session.agentId,
        mapping,
        model: used.model,
        ...used.usage,
      });
    deps.log.info({ runId: run.id, status }, "a run ended");
    if (planned?.delivery.error) reportNoRoute(run, planned, deps);
    deps.runEnds.ended(run.id);
  }
  await after?.(done);
}
