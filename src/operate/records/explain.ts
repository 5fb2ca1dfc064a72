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
import { deliveryView, eventDetail, isoOrNull } from "./views.ts";

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

async function evaluate(
  event: EventRecord,
  snapshot: Snapshot,
  when: string,
): Promise<EventEvaluation> {
  const evaluated = await evaluateEvent(event, snapshot);
  const { evaluation } = evaluated;
  if (!evaluation) return evaluated;
  const note = wasNotRun(evaluation)
    ? `${MODULE_CHANGED}: the event and its runs have what it gave`
    : findDifference(event, evaluation, when);
  return { evaluation, note };
}

const configView = ({ record, today, isToday, note }: DecidedBy) => ({
  number: record?.number ?? null,
  /** Its name: `config 3`. */
  text: record ? `config ${record.number}` : "a config that was not recorded",
  isToday,
  /** Since when, and until when at least, gateways have used it. */
  firstUsedAt: isoOrNull(record?.firstUsedAt),
  lastUsedAt: isoOrNull(record?.lastUsedAt),
  today: today?.number ?? null,
  /** The reason that the event is explained by today's config, or the differences from then; null if there is neither. */
  note,
});

/** Evaluates an event by the config that decided it. `config` is null if no mapping decides on its path. */
async function explainConfig(deps: AdminDeps, event: EventRecord) {
  if (WITHOUT_MAPPINGS.has(event.path))
    return { config: null, ...(await evaluate(event, deps.snapshot(), "today")) };
  const decided = await deps.decidedBy(event);
  const when = decided.snapshot === deps.snapshot() ? "today" : "by that config";
  return { config: configView(decided), ...(await evaluate(event, decided.snapshot, when)) };
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
 * runs did. Sends nothing and stores nothing; a transform module that has not changed runs again.
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
