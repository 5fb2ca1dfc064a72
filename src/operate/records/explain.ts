import type { EventRecord } from "../../store/types.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { WITHOUT_MAPPINGS } from "../../intake/authenticate.ts";
import type { Snapshot } from "../../intake/types.ts";
import { MODULE_CHANGED } from "../../mapping/transforms/transform.ts";
import { found } from "./operation.ts";
import { runStatuses, showRun, showSteps } from "./records.ts";
import { evaluateEvent, type EventEvaluation, type TestedHook } from "./test-hook.ts";
import type { AdminDeps } from "../types.ts";
import type { DecidedBy } from "./decided-by.ts";
import { deliveryView, eventDetail, isoOrNull, runFields } from "./views.ts";

/** The reasons for the outcome of an event. For operators only: they quote the event. */
export type Explanation = Awaited<ReturnType<typeof explainEvent>>["explanation"];

/** The config that decided an event, and the one that is in use today. Numbers are null for configs that were not recorded; times are ISO 8601. */
export type DecidingConfigView = ReturnType<typeof configView>;

const by = (name: string | null | undefined): string =>
  name === null || name === undefined ? "" : ` by ${name}`;

/** Says in what mappings differ from what was recorded; `when` names them. */
function findDifference(
  event: EventRecord,
  { outcome, mapping, actions }: TestedHook,
  when: string,
): string | null {
  const isRefused =
    outcome === "actions" &&
    actions.length > 0 &&
    actions.every((action) => !action.ok || action.problem !== null);
  const found = outcome === "actions" ? (isRefused ? "rejected" : "accepted") : outcome;
  // A duplicate was not evaluated, and what becomes of an unlucky write is not the mappings' to say.
  if (
    event.outcome === "duplicate" ||
    (found === event.outcome && (mapping ?? undefined) === event.mapping)
  )
    return null;
  if (event.outcome === "skipped" && event.mapping === (mapping ?? undefined)) return null;
  return `it was ${event.outcome}${by(event.mapping)}; ${when} it would be ${found}${by(mapping)}`;
}

const wasNotRun = ({ failure, actions }: TestedHook): boolean =>
  failure?.message === MODULE_CHANGED ||
  actions.some((action) => !action.ok && action.failure.message === MODULE_CHANGED);

/** An action as it was recorded, for one that cannot be made again. */
function toTestedAction(action: StoredAction, { missing = [] }: EventRecord): TestedAction {
  const { mapping = "" } = action;
  const base = { ok: true as const, mapping, dedupeKey: null, missing, problem: null };
  if (action.kind === "wake") {
    const { mode, text: content, unsafe } = action;
    return { ...base, action: "wake", fields: { mode }, content, warnings: [], unsafe };
  }
  const { spec, warnings } = action;
  const unsafe = "unsafe" in spec && spec.unsafe;
  const [fields, content] = [runFields(spec), spec.input];
  return { ...base, action: "agent", fields, content, warnings, unsafe };
}

/** Puts what was recorded in place of what a module gave that is not there any more. */
function withRecorded(event: EventRecord, evaluation: TestedHook): EventEvaluation {
  const { outcome, reason = null } = event;
  if (outcome === "duplicate") return { evaluation, note: MODULE_CHANGED };
  const toActions = (actions: readonly ShadowAction[]): TestedAction[] =>
    actions.flatMap((action) => (action.kind === "none" ? [] : toTestedAction(action, event)));
  const actions = toActions(event.actions);
  const would = toActions(event.would ?? []);
  const failure =
    outcome === "failed" || outcome === "rejected"
      ? { code: "transform_failed" as const, message: reason ?? "" }
      : null;
  const mapping = event.mapping ?? evaluation.mapping;
  const recorded = {
    ...evaluation,
    outcome: outcome === "accepted" ? ("actions" as const) : outcome,
    mapping,
    reason,
    failure,
    actions,
    would,
  };
  return {
    evaluation: { ...recorded, text: renderTested(recorded) },
    note: `${MODULE_CHANGED}: the result is the one that was recorded`,
  };
}

async function evaluate(
  event: EventRecord,
  snapshot: Snapshot,
  when: string,
): Promise<EventEvaluation> {
  const { evaluation, note } = await evaluateEvent(event, snapshot);
  if (!evaluation) return { evaluation, note };
  return wasNotRun(evaluation)
    ? withRecorded(event, evaluation)
    : { evaluation, note: findDifference(event, evaluation, when) };
}

const configView = ({ record, today, todaySince, isToday, note }: DecidedBy) => ({
  number: record?.number ?? null,
  /** Its name: `config 3`. */
  text: record ? `config ${record.number}` : "a config that was not recorded",
  isToday,
  /** Since when, and until when at least, gateways have used it. */
  firstUsedAt: isoOrNull(record?.firstUsedAt),
  lastUsedAt: isoOrNull(record?.lastUsedAt),
  today: today?.number ?? null,
  /** Null if no gateway runs. */
  todaySince: isoOrNull(todaySince),
  /** The reason that the event is explained by today's config, or the differences from then; null if there is neither. */
  note,
});

/**
 * Evaluates an event by the config that decided it (`config`; null if no mapping decides on its path), and by today's (`now`; null
 * if that was not asked for, or if it decided).
 */
async function explainConfigs(deps: AdminDeps, event: EventRecord, asksNow: boolean) {
  if (WITHOUT_MAPPINGS.has(event.path))
    return { config: null, ...(await evaluate(event, deps.snapshot(), "today")), now: null };
  const decided = await deps.decidedBy(event);
  const isByToday = decided.snapshot === deps.snapshot();
  const then = await evaluate(event, decided.snapshot, isByToday ? "today" : "by that config");
  const now = asksNow && !isByToday ? await evaluate(event, deps.snapshot(), "today") : null;
  return { config: configView(decided), ...then, now };
}

/** Shows what one run of an event did, with the delivery of its reply; null if there is none. */
async function explainRun(deps: AdminDeps, id: string) {
  const [{ run }, { steps }] = await Promise.all([showRun(deps, id), showSteps(deps, id)]);
  const delivery =
    run.deliveryId === null ? undefined : await deps.store.deliveries.get(run.deliveryId);
  return { run, steps, delivery: delivery ? deliveryView(delivery) : null };
}

/**
 * Explains a recorded event: how each mapping of the config that decided it decides about it, what was rendered, and what its
 * runs did; with `now`, also what today's config makes of it. Sends nothing and stores nothing; a transform module that has not
 * changed runs again.
 * @throws RouseError `not_found`
 */
export async function explainEvent(deps: AdminDeps, id: string) {
  const event = found(await deps.store.events.get(id), unknownId("event", id));
  const statuses = await runStatuses(deps.store, event);
  const kept = [...statuses].filter(([, status]) => status !== "forgotten");
  const [explained, ...runs] = await Promise.all([
    explainConfig(deps, event),
    ...kept.map(([runId]) => explainRun(deps, runId)),
  ]);
  // Runs are in the order of the event's actions; those that are no longer kept are left out.
  return { explanation: { event: eventDetail(event, statuses), ...explained, runs } };
}
