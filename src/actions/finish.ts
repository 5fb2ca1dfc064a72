import { newId } from "../core/ids.ts";
import { cutText } from "../core/text.ts";
import { planCallback, writeDelivery, type Planned } from "../delivery/plan.ts";
import { newDeliveryRecord } from "../store/rows.ts";
import { NO_ROUTE } from "../store/types.ts";
import type { NewDelivery, NewSystemEvent, NewTurn, Route, RunRecord, RunSpec, Writes } from "../store/types.ts";
import { receiptOf } from "./receipts.ts";
import type { ActionContext, TurnDeps } from "./types.ts";

const MAX_SUMMARY = 2000;

/** The system event that a run leaves in the main session when it has ended. All of it is outside text. */
export function summaryEvent(run: RunRecord, agentId: string, now: number, end: { reply: string } | { reason: string }): NewSystemEvent {
  const said = "reply" in end ? end.reply || "(no reply)" : end.reason;
  const { text, cut } = cutText(said, MAX_SUMMARY);
  const head = "reply" in end ? `Hook ${run.spec.name}: ` : `Hook ${run.spec.name} failed: `;
  return {
    id: newId("sev", now),
    agentId,
    at: now,
    text: [{ text: head + text + (cut > 0 ? `[cut: ${cut} characters]` : ""), outside: true }],
    source: run.spec.hook,
    mode: run.spec.wakeMode,
    unsafe: false,
  };
}

/** The receipt of a run that has ended, as a delivery to where its mapping wants it. `delivery` is that of its reply. */
function callbackOf(run: RunRecord, context: ActionContext, now: number, delivery?: NewDelivery): Planned | undefined {
  const callback = context.callbackOf(run.mapping);
  if (!callback || run.mapping === undefined) return undefined;
  const receipt = receiptOf(run, delivery && newDeliveryRecord(delivery), context.config.hooks.receipts === "full");
  return planCallback({ runId: run.id, mapping: run.mapping, url: callback.url, receipt, now });
}

/** Writes the end of a run: its state and, where the mapping has a callback, the delivery of its receipt. */
export function writeEnd(
  tx: Writes,
  run: RunRecord,
  end: Partial<RunRecord> & Pick<RunRecord, "endedAt" | "status">,
  { context, now, delivery }: { context: ActionContext; now: number; delivery?: NewDelivery },
): void {
  const { error, ...rest } = end;
  const { error: _before, parked: _parked, ...known } = run;
  const callback = callbackOf({ ...known, ...end }, context, now, delivery);
  tx.updateRun(run.id, { ...rest, error: error ?? null, parked: null, ...(callback ? { callbackId: callback.delivery.id } : {}) });
  if (callback) writeDelivery(tx, callback);
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
  deps.metrics?.deliveryEnded({ channel: delivery.route.channel, status: NO_ROUTE });
  const known = logged.get(context) ?? new Set();
  logged.set(context, known);
  const source = run.mapping ?? run.spec.hook;
  if (known.has(source)) return;
  known.add(source);
  deps.log.warn(
    { mapping: run.mapping, hook: run.spec.hook, runId: run.id, deliveryId: delivery.id, reason: delivery.error?.message },
    "replies have no route: they are kept, and `rouse deliveries retry --no-route` sends them once there is one",
  );
}

/** The route of the reply to a channel's message: back to its conversation. Undefined for other runs. */
export function replyRoute({ incoming, channel, to }: RunSpec): Route | undefined {
  if (!incoming || to === undefined) return undefined;
  const { replyTo, thread } = incoming;
  return { channel, to, replyTo, ...(thread === undefined ? {} : { thread }) };
}

/** A turn as the session keeps it. */
export function turnOf(runId: string, spec: RunSpec, now: number, messages: unknown[]): NewTurn {
  return { runId, at: now, hook: spec.hook, input: spec.input, unsafe: spec.unsafe, messages };
}
