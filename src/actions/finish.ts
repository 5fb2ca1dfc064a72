import { newId } from "../core/ids.ts";
import { cutText } from "../core/text.ts";
import { planCallback, type Planned } from "../delivery/deliver.ts";
import type { NewDelivery, NewSystemEvent, NewTurn, Route, RunRecord, RunSpec, Writes } from "../store/types.ts";
import { receiptOf } from "./receipts.ts";
import type { ActionContext } from "./types.ts";

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
  const pending = delivery && { ...delivery, nextChunk: 0, status: "pending" as const, attempts: 0, messageIds: [], nextAt: now };
  const receipt = receiptOf(run, pending, context.config.hooks.receipts === "full");
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
  if (!callback) return;
  tx.addDelivery(callback.delivery);
  tx.enqueue(callback.job);
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
