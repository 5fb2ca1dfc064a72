import { RouseError } from "../../core/errors.ts";
import {
  hasFailed,
  type EventRecord,
  type Lists,
  type RunRecord,
  type Store,
} from "../../store/types.ts";
import { findWaitReason } from "../../turns/hold.ts";
import { byId, found, given, searchPage, unwrap, type PageQuery } from "./operation.ts";
import type { ReplayOptions } from "../../intake/types.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import type { AdminDeps } from "../types.ts";
import {
  deliveryDetail,
  deliveryView,
  eventDetail,
  runDetail,
  runView,
  stepView,
  type RunFacts,
} from "./views.ts";

/** More than the tool calls that a run may make. */
const MAX_APPROVALS = 1000;

/** The states of an event's runs, by id; `forgotten` if a run is no longer kept. */
export async function runStatuses(store: Store, event: EventRecord): Promise<Map<string, string>> {
  const statuses = new Map<string, string>();
  for (const action of event.actions) {
    if (action.kind !== "run") continue;
    const run = await store.runs.get(action.runId);
    statuses.set(action.runId, run?.status ?? "forgotten");
  }
  return statuses;
}

/** Returns whether a run of an event has failed. */
export const hasFailedRun = async (store: Store, event: EventRecord): Promise<boolean> =>
  [...(await runStatuses(store, event)).values()].some(
    (status) => status === "failed" || status === "timed_out",
  );

/** @throws RouseError `not_found` */
export async function showEvent({ store }: AdminDeps, id: string) {
  const event = found(await store.events.get(id), unknownId("event", id));
  return { event: eventDetail(event, await runStatuses(store, event)) };
}

/** Replays one event with the current mappings, or with `dryRun` says what that would do. */
export async function replayOne(
  { store, replay }: AdminDeps,
  id: string,
  options: ReplayOptions,
): ReturnType<AdminDeps["replay"]> {
  const event = await store.events.get(id);
  return event ? replay(event, options) : { ok: false, failure: unknownId("event", id) };
}

/**
 * Does as `replayOne`.
 * @throws RouseError `not_found` if the event or its body is not there, `usage` if it has no action of that number.
 */
export const replayEvent = async (deps: AdminDeps, id: string, options: ReplayOptions) => ({
  result: unwrap(await replayOne(deps, id, options)).result,
});

/**
 * Discards an event that failed, or whose actions failed in part: checks and bulk replays leave it out from then on.
 * @throws RouseError `not_found`, or `not_retryable` if it has not failed.
 */
export async function discardEvent(deps: AdminDeps, id: string, { reason }: { reason: string }) {
  const event = found(await deps.store.events.get(id), unknownId("event", id));
  if (!hasFailed(event))
    throw new RouseError({
      code: "not_retryable",
      message: `only an event that failed can be discarded; this one is ${event.outcome}`,
    });
  await deps.store.commit((tx) =>
    tx.events.update(id, { handled: { at: deps.clock.now(), as: "discarded", reason } }),
  );
  return showEvent(deps, id);
}

async function findFacts({ store, queue, clock }: AdminDeps, run: RunRecord): Promise<RunFacts> {
  const [delivery, waitsFor] = await Promise.all([
    run.deliveryId === undefined ? undefined : store.deliveries.get(run.deliveryId),
    findWaitReason(run, { store, queue, now: clock.now() }),
  ]);
  return { delivery, waitsFor };
}
const toDetail = async (deps: AdminDeps, run: RunRecord) => ({
  run: runDetail(run, await findFacts(deps, run)),
});

const WORK = ["hook", "schedule", "channel", "api"] as const satisfies RunRecord["kind"][];
/** The kinds that a list of runs can be asked for. */
export const LISTED_KINDS = [...WORK, "heartbeat", "all"] as const;

/** Lists runs, newest first. Heartbeats are left out if neither `kind` nor another filter than the time says what is wanted. */
export async function listRuns(
  deps: AdminDeps,
  {
    kind,
    ...asked
  }: PageQuery<Omit<Lists["runs"]["of"], "kinds"> & { kind: (typeof LISTED_KINDS)[number] }>,
) {
  const { limit: _limit, before: _before, since: _since, ...filters } = asked;
  const isPlain = kind === undefined && Object.keys(given(filters)).length === 0;
  const kinds = kind === undefined || kind === "all" ? undefined : [kind];
  const query = { ...asked, kinds: isPlain ? WORK : kinds };
  const { rows, ...page } = await searchPage(deps.store, "runs", query, byId);
  return {
    runs: await Promise.all(rows.map(async (run) => runView(run, await findFacts(deps, run)))),
    ...page,
  };
}

/** @throws RouseError `not_found` */
export async function showRun(deps: AdminDeps, id: string) {
  return toDetail(deps, found(await deps.store.runs.get(id), unknownId("run", id)));
}

/**
 * Shows the steps of a run, oldest first, with their tool calls and what people decided about them.
 * @throws RouseError `not_found`
 */
export async function showSteps({ store }: AdminDeps, id: string) {
  const run = found(await store.runs.get(id), unknownId("run", id));
  const [steps, asked] = await Promise.all([
    store.steps.list(id),
    store.approvals.list({ runId: id, limit: MAX_APPROVALS }),
  ]);
  const approvals = asked.toReversed();
  return { steps: steps.map((step) => stepView(step, { run, approvals })) };
}

/**
 * Shows the whole text of a tool's result that was cut.
 * @throws RouseError `not_found`
 */
export async function showToolResult({ store }: AdminDeps, runId: string, id: string) {
  const result = await store.toolResults.get(id);
  return {
    result: found(result?.runId === runId ? result : undefined, {
      code: "not_found",
      message: "the run has no stored result with this id",
    }),
  };
}

/**
 * Cancels a run, or starts one again that failed.
 * @throws RouseError `not_found`, `run_ended`, or `not_retryable`
 */
export async function changeRun(deps: AdminDeps, operation: "cancel" | "retry", id: string) {
  return toDetail(deps, unwrap(await deps.runs[operation](id)).run);
}

/** Lists deliveries, newest first. */
export async function listDeliveries(
  { store }: AdminDeps,
  query: PageQuery<Lists["deliveries"]["of"]>,
) {
  const { rows, ...page } = await searchPage(store, "deliveries", query, byId);
  return { deliveries: rows.map(deliveryView), ...page };
}

/** @throws RouseError `not_found` */
export async function showDelivery({ store }: AdminDeps, id: string) {
  return {
    delivery: deliveryDetail(found(await store.deliveries.get(id), unknownId("delivery", id))),
  };
}

/**
 * Sends again what failed, from the first chunk that was not sent.
 * @throws RouseError `not_found`, `not_retryable`, or `no_route`
 */
export async function retryDelivery(deps: AdminDeps, id: string, options: { arrived: boolean }) {
  return { delivery: deliveryView(unwrap(await deps.deliveries.retry(id, options)).delivery) };
}
