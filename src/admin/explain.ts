import type { EventRecord } from "../store/types.ts";
import { WITHOUT_MAPPINGS } from "../intake/authenticate.ts";
import { parsePayload } from "../intake/body.ts";
import { found } from "./operation.ts";
import { runStatuses, showRun, showSteps } from "./records.ts";
import { testInput, type TestedHook } from "./test-hook.ts";
import type { AdminDeps } from "./types.ts";
import { deliveryView, eventDetail, type DeliveryView, type EventDetail, type RunDetail, type StepView } from "./views.ts";

/** What one run of an event did. */
export interface ExplainedRun {
  run: RunDetail;
  steps: StepView[];
  /** The delivery of its reply; null if there is none. */
  delivery: DeliveryView | null;
}

/** Why an event had its outcome. For operators only: it quotes the event. */
export interface Explanation {
  event: EventDetail;
  /** What today's mappings make of the event; null with a `note` if they cannot be asked. */
  evaluation: TestedHook | null;
  /** Why there is no evaluation, or in what it differs from what was recorded; null if neither. */
  note: string | null;
  /** Its runs, in the order of its actions. Runs that are no longer kept are left out. */
  runs: ExplainedRun[];
}

type Evaluated = Pick<Explanation, "evaluation" | "note">;

/** Says in what today's mappings differ from what was recorded. */
function findDifference(event: EventRecord, { outcome, mapping, actions }: TestedHook): string | null {
  const isRefused = outcome === "actions" && actions.length > 0 && actions.every((action) => !action.ok || action.problem !== null);
  const today = outcome === "actions" ? (isRefused ? "rejected" : "accepted") : outcome;
  // A duplicate was not evaluated, and what becomes of a shadow or of an unlucky write is not the mappings' to say.
  if (event.outcome === "duplicate" || (today === event.outcome && (mapping ?? undefined) === event.mapping)) return null;
  if (event.outcome === "skipped" && event.mapping === (mapping ?? undefined)) return null;
  const by = (name: string | null | undefined): string => (name === null || name === undefined ? "" : ` by ${name}`);
  return `it was ${event.outcome}${by(event.mapping)}; today it would be ${today}${by(mapping)}`;
}

async function evaluateEvent(event: EventRecord, deps: AdminDeps): Promise<Evaluated> {
  const { method, headers, query, body, contentType } = event.request;
  if (WITHOUT_MAPPINGS.has(event.path))
    return { evaluation: null, note: `no mapping decides about /${event.path}: its body names the work` };
  if (body === null) return { evaluation: null, note: "the body of this event is no longer kept (hooks.retention)" };
  const parsed = method === "GET" ? { ok: true as const, payload: query } : await parsePayload(Buffer.from(body), contentType);
  if (!parsed.ok) return { evaluation: null, note: `the body cannot be read: ${parsed.failure.message}` };
  const evaluation = await testInput(
    {
      path: event.path,
      method,
      byHookToken: event.credential === "hooks.token",
      payload: parsed.payload,
      headers,
      query,
      now: event.receivedAt,
    },
    deps.snapshot(),
  );
  return { evaluation, note: findDifference(event, evaluation) };
}

async function explainRun(deps: AdminDeps, id: string): Promise<ExplainedRun> {
  const [{ run }, { steps }] = await Promise.all([showRun(deps, id), showSteps(deps, id)]);
  const delivery = run.deliveryId === null ? undefined : await deps.store.get("delivery", run.deliveryId);
  return { run, steps, delivery: delivery ? deliveryView(delivery) : null };
}

/**
 * Explains a recorded event: how each mapping decides about it, what was rendered, and what its runs did. Sends nothing and
 * stores nothing; a transform module runs again.
 * @throws RouseError `not_found`
 */
export async function explainEvent(deps: AdminDeps, id: string): Promise<{ explanation: Explanation }> {
  const event = found(await deps.store.get("event", id), "there is no event with this id");
  const statuses = await runStatuses(deps.store, event);
  const kept = [...statuses].filter(([, status]) => status !== "forgotten");
  const [evaluated, ...runs] = await Promise.all([evaluateEvent(event, deps), ...kept.map(([runId]) => explainRun(deps, runId))]);
  return { explanation: { event: eventDetail(event, statuses), ...evaluated, runs } };
}
