import { cleanReply } from "../agent/reply/disarm.ts";
import { cutText } from "../core/text.ts";
import { resolveRoute } from "../delivery/channels.ts";
import {
  planCallback,
  planReply,
  attachFiles,
  writeDelivery,
  type AttachedFile,
  type Planned,
} from "../delivery/plan.ts";
import { buildHeartbeatEvent } from "../queue/heartbeat.ts";
import { newDeliveryRecord } from "../store/sql/rows.ts";
import {
  turnToKeep,
  NO_ROUTE,
  type Ms,
  type NewDelivery,
  type NewSystemEvent,
  type NewTurn,
  type Route,
  type RouteDecision,
  type RunRecord,
  type RunSpec,
  type RunStatus,
  type Writes,
} from "../store/types.ts";
import { withSources, type NamedCitation } from "./knowledge.ts";
import { runReceipt } from "./receipts.ts";
import { endHold } from "./hold.ts";
import type { AnsweredTurn, ModelTurn } from "./run-kind.ts";
import type { TurnDeps } from "./context.ts";
import type { ActionContext } from "./types.ts";
import { planRemoval } from "../delivery/send.ts";

/** Adds to the commit that ends a run, or its try: the message with the turn's text is deleted. */
export function writeRemoval(
  tx: Writes,
  { id: runId, spec, live }: Pick<RunRecord, "id" | "spec" | "live">,
  now: Ms,
): void {
  const route = replyRoute(spec);
  if (!live || !route) return;
  writeDelivery(tx, planRemoval(live, { runId, route, now }));
  tx.runs.update(runId, { live: null });
}

/** The delivery of an answer, which replaces the message with the turn's text. */
export function replaceLive(planned: Planned, { live }: RunRecord): Planned {
  return live && planned.job ? { ...planned, delivery: { ...planned.delivery, live } } : planned;
}

const MAX_SUMMARY = 2000;

/** The system event that a run leaves in the main session when it has ended. All of it is outside text. */
export function summaryEvent(
  run: RunRecord,
  agentId: string,
  now: number,
  end: { reply: string } | { reason: string },
): NewSystemEvent {
  const { name, hook, wakeMode } = run.spec;
  const what = run.kind === "schedule" ? "Schedule" : "Hook";
  const { text, cut } = cutText(
    "reply" in end ? end.reply || "(no reply)" : end.reason,
    MAX_SUMMARY,
  );
  const head = "reply" in end ? `${what} ${name}: ` : `${what} ${name} failed: `;
  const tail = cut > 0 ? `[cut: ${cut} characters]` : "";
  return { ...buildHeartbeatEvent(agentId, now, hook, head + text + tail, true), mode: wakeMode };
}

/** Plans the callback of a run that has ended, if its mapping has one. `delivery` is that of the reply. */
function planReceipt(
  run: RunRecord,
  context: ActionContext,
  now: number,
  delivery?: NewDelivery,
): Planned | undefined {
  const callback = context.getCallback(run.mapping);
  if (!callback || run.mapping === undefined) return undefined;
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
  end: Partial<RunRecord> & Pick<RunRecord, "endedAt" | "status">,
  { context, now, delivery }: { context: ActionContext; now: number; delivery?: NewDelivery },
): void {
  const { error, ...rest } = end;
  const { error: _before, ...known } = run;
  const callback = planReceipt({ ...known, ...end }, context, now, delivery);
  tx.runs.update(run.id, {
    ...endHold(run, end.endedAt ?? now),
    ...rest,
    error: error ?? null,
    ...(callback ? { callbackId: callback.delivery.id } : {}),
  });
  if (callback) writeDelivery(tx, callback);
}

/** The most failed model calls that a run keeps: the newest. */
const MAX_ATTEMPTS = 100;

/** What a run keeps of the model calls at which a try ended. With `hooks.retention` 0 it keeps nothing that a provider said. */
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
    unsafe: spec.unsafe,
    messages,
    ...(context.length > 0 && { context }),
    ...(boundaryId !== undefined && { boundaryId }),
    ...(kind === "hook" && { trustedHook: mapping ?? spec.hook }),
  };
  tx.sessions.addTurn(spec.session, turnToKeep(turn, config.hooks.retention));
}

/** The route of the reply to a channel's message: back to its conversation. Undefined for other runs. */
export function replyRoute({ incoming, channel, to }: RunSpec): Route | undefined {
  if (!incoming || to === undefined) return undefined;
  const { replyTo, thread } = incoming;
  return { channel, to, replyTo, ...(thread === undefined ? {} : { thread }) };
}

/** Decides where a run's reply goes, or why it goes nowhere. */
export async function decideRoute(
  run: RunRecord,
  { channels, agents }: ActionContext,
  deps: TurnDeps,
): Promise<RouteDecision> {
  // A second try keeps the recipient that was fixed before the model first ran, if there was one.
  if (run.route && run.route.status !== NO_ROUTE) return run.route;
  const back = replyRoute(run.spec);
  if (back) return { status: "route", route: back };
  if (!run.spec.deliver) return { status: "skipped", reason: "deliver is false" };
  const asked = run.spec.schedule?.asked?.route;
  // The conversation in which somebody asked for the schedule, whatever the owner does since; a channel that is gone has no route.
  if (asked && channels.get(asked.channel)) return { status: "route", route: asked };
  const own =
    run.kind === "heartbeat" || run.kind === "schedule"
      ? run.spec.session.agentId
      : agents.default.id;
  // As long as the owner has not written to an agent, its replies go where the owner wrote to the first agent.
  const isKnown =
    own === agents.default.id || (await deps.store.sessions.listLastRoutes(own)).length > 0;
  const request = {
    store: deps.store,
    channels,
    agentId: isKnown ? own : agents.default.id,
    channel: run.spec.channel,
  };
  return resolveRoute(run.spec.to === undefined ? request : { ...request, to: run.spec.to });
}

/** A reply without links to hosts that `hooks.allowedLinkHosts` leaves out, and the warning that says so. */
export function cleanAnswer(
  text: string,
  { config }: ActionContext,
): { reply: string; warnings: string[] } {
  const cleaned = cleanReply(text, config.hooks.allowedLinkHosts);
  const warning = `${cleaned.removedLinks} links to hosts outside hooks.allowedLinkHosts were removed`;
  return { reply: cleaned.text, warnings: cleaned.removedLinks > 0 ? [warning] : [] };
}

/** Plans what becomes of an answer: the reply as the run keeps it, and its delivery with the sources that it names. */
export function planAnswer(
  run: RunRecord,
  {
    text,
    citations,
    route: decided,
    files = [],
  }: {
    text: string;
    citations: readonly NamedCitation[];
    route: RouteDecision;
    files?: readonly AttachedFile[];
  },
  context: ActionContext,
  now: Ms,
): {
  change: { reply: string; route: RouteDecision };
  warnings: string[];
  planned: Planned | undefined;
} {
  const { reply, warnings } = cleanAnswer(text, context);
  const isEmpty = decided.status !== "skipped" && reply.trim() === "" && files.length === 0;
  const route: RouteDecision = isEmpty
    ? { status: "skipped", reason: "there was nothing to send" }
    : decided;
  const shown = withSources(reply, citations);
  const marked = run.spec.marker === undefined ? shown : `${shown}\n\n${run.spec.marker}`;
  const planned = planReply(run, route, { text: marked, channels: context.channels, now });
  return { change: { reply, route }, warnings, planned: planned && attachFiles(planned, files) };
}

/** What a snapshot's runs have been logged for already. */
const logged = new WeakMap<ActionContext, Set<string>>();

/** Counts a reply that has no route, and logs it once per mapping and snapshot: one mapping may have thousands. */
export function reportNoRoute(
  run: RunRecord,
  { delivery }: Planned,
  context: ActionContext,
  deps: Pick<TurnDeps, "log" | "metrics">,
): void {
  deps.metrics.deliveryEnded({ channel: delivery.route.channel, status: NO_ROUTE });
  const known = logged.get(context) ?? new Set();
  logged.set(context, known);
  const source = run.mapping ?? run.spec.hook;
  if (known.has(source)) return;
  known.add(source);
  deps.log.warn(
    {
      mapping: run.mapping,
      hook: run.spec.hook,
      runId: run.id,
      deliveryId: delivery.id,
      reason: delivery.error?.message,
    },
    "replies have no route: they are kept, and `rouse deliveries retry --status no_route` sends them once there is one",
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
