import { newId } from "../core/ids.ts";
import { cutText } from "../core/text.ts";
import type { NewSystemEvent, NewTurn, RunRecord, RunSpec } from "../store/types.ts";

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

/** A turn as the session keeps it. */
export function turnOf(runId: string, spec: RunSpec, now: number, messages: unknown[]): NewTurn {
  return { runId, at: now, hook: spec.hook, input: spec.input, unsafe: spec.unsafe, messages };
}
