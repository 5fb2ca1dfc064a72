import { sha256Hex } from "../core/secret.ts";
import { addFailures, type FailureCause, type FailureSum, type Ms } from "../store/types.ts";
import {
  readStates,
  type GroupChange,
  type GroupDecision,
  type GroupIds,
  type GroupState,
} from "./failure-states.ts";
import { found } from "./operation.ts";
import type { AdminDeps } from "./types.ts";
import { iso } from "./views.ts";
import { GROUP_STATUSES, type FailureGroup, type GroupStatus } from "./watch-views.ts";

/** Failures of one kind and state that are looked at: the newest. */
const MAX_FAILURES = 2000;
const HOUR_MS = 3_600_000;
/** Hours of the line that shows how a group went. */
const HOURS = 24;
/** How far back groups are looked for by their id. */
export const WEEK_MS = 7 * 24 * HOUR_MS;

export interface FailureFilter {
  since: Ms;
  status?: GroupStatus | undefined;
  kind?: FailureCause["kind"] | undefined;
  path?: string | undefined;
  mapping?: string | undefined;
  sender?: string | undefined;
  assignee?: string | undefined;
  limit: number;
}

/** Failures of one cause. */
interface Group extends GroupIds {
  cause: FailureCause;
  sum: FailureSum;
  hours: ReadonlyMap<number, number>;
}

/** Takes out of a reason what differs each time, such as ids and numbers. */
const generalize = (reason: string): string =>
  reason.replaceAll(/\b[a-z]{3}_[0-9a-v]{35}\b/g, "…").replaceAll(/\d+/g, "#");

function toCause({
  kind,
  state,
  path,
  mapping,
  code,
  reason,
  channel,
  sender,
}: FailureSum): FailureCause {
  return {
    kind,
    state,
    path,
    mapping,
    code,
    reason: reason === null ? null : generalize(reason),
    channel,
    sender,
  };
}

/** The ids of a cause with its sender and without. They are equal if it has none, since groups keep their ids. */
function toIds({ sender, ...cause }: FailureCause): GroupIds {
  const toId = (values: readonly unknown[]): string =>
    `fgr_${sha256Hex(JSON.stringify(values)).slice(0, 16)}`;
  const values = Object.values(cause);
  return { id: toId(sender === null ? values : [...values, sender]), earlierId: toId(values) };
}

function group(sums: readonly FailureSum[]): Group[] {
  const groups = new Map<string, Group & { hours: Map<number, number> }>();
  for (const one of sums) {
    const cause = toCause(one);
    const ids = toIds(cause);
    const known = groups.get(ids.id);
    const made = known
      ? { ...known, sum: addFailures(known.sum, one) }
      : { ...ids, cause, sum: one, hours: new Map<number, number>() };
    made.hours.set(one.hour, (made.hours.get(one.hour) ?? 0) + one.count);
    groups.set(ids.id, made);
  }
  return [...groups.values()];
}

/** Names the sender, if neither the path nor the mapping says more. */
function renderSender({ path, mapping, sender }: FailureCause): string {
  if (path !== null || mapping !== null || sender === null) return "";
  return ` from ${sender.replace(/^api:/, "API key ").replace(/^channel:/, "")}`;
}

/** Says in a sentence what the failures of a group have in common. */
function renderTitle(cause: FailureCause): string {
  const { kind, state, path, mapping, code, reason, channel } = cause;
  const where = path === null ? "" : ` on ${path}`;
  const by = mapping === null ? "" : ` of ${mapping}`;
  if (kind === "delivery")
    return state === "no_route"
      ? "Replies have no route"
      : `Deliveries to ${channel} failed: ${code ?? "unknown"}`;
  if (kind === "run")
    return `Runs${by}${where}${renderSender(cause)} ${state === "timed_out" ? "timed out" : "failed"}: ${code ?? "unknown"}`;
  if (state === "unmatched")
    return code === null
      ? `No mapping matches hooks${where}`
      : `Hooks${where}: ${code}${by} does not hold`;
  return `Hooks${by}${where} ${state}: ${reason ?? "no reason is recorded"}`;
}

function getStatus({ snoozedUntil, resolved }: GroupDecision, last: Ms, now: Ms): GroupStatus {
  if (resolved && resolved.at >= last) return "resolved";
  return snoozedUntil !== undefined && snoozedUntil > now ? "snoozed" : "open";
}

type StateOfGroup = Pick<GroupState, "revision" | "decided">;

function groupView(
  { id, cause, sum, hours }: Group,
  { revision, decided }: StateOfGroup,
  now: Ms,
): FailureGroup {
  const { assignee, snoozedUntil, resolved } = decided;
  const status = getStatus(decided, sum.last, now);
  const current = Math.floor(now / HOUR_MS);
  return {
    id,
    title: renderTitle(cause),
    ...cause,
    message: sum.message,
    count: sum.count,
    firstSeen: iso(sum.first),
    lastSeen: iso(sum.last),
    hours: Array.from({ length: HOURS }, (_, index) => hours.get(current - HOURS + 1 + index) ?? 0),
    example: sum.example,
    status,
    assignee: assignee ?? null,
    snoozedUntil: status === "snoozed" && snoozedUntil !== undefined ? iso(snoozedUntil) : null,
    resolved: resolved ? { at: iso(resolved.at), version: resolved.version } : null,
    isReopened: resolved !== undefined && status !== "resolved",
    revision,
  };
}

/**
 * Reads the groups since a time with what was done about them, those that failed last first. `earlierIds` has the ids that they had
 * before their causes named a sender.
 */
export async function readGroups({ store, clock }: Pick<AdminDeps, "store" | "clock">, since: Ms) {
  const [sums, states] = await Promise.all([
    store.list("failures", { since, limit: MAX_FAILURES }),
    readStates(store),
  ]);
  const groups = group(sums);
  const views = groups.map((one) => groupView(one, states.find(one), clock.now()));
  const counted = Map.groupBy(sums, ({ kind, state }) => `${kind} ${state}`);
  const isComplete = [...counted.values()].every(
    (those) => those.reduce((sum, { count }) => sum + count, 0) < MAX_FAILURES,
  );
  return {
    groups: views.toSorted((one, other) => (one.lastSeen < other.lastSeen ? 1 : -1)),
    earlierIds: new Map(groups.map(({ id, earlierId }) => [id, earlierId])),
    isComplete,
  };
}

/** Lists groups of failures. `isComplete` is false if only the newest failures were looked at: then counts are too low. */
export async function listFailures(
  deps: AdminDeps,
  { since, status, limit, ...filter }: FailureFilter,
) {
  const { groups, isComplete } = await readGroups(deps, since);
  const wanted = Object.entries(filter).filter(([, value]) => value !== undefined);
  const chosen = groups.filter((one) =>
    wanted.every(([name, value]) => one[name as "path"] === value),
  );
  const counts = Object.fromEntries(
    GROUP_STATUSES.map((name) => [name, chosen.filter((one) => one.status === name).length]),
  );
  const rows = chosen.filter((one) => status === undefined || one.status === status);
  return {
    failures: rows.slice(0, limit),
    total: rows.length,
    counts: counts as Record<GroupStatus, number>,
    since: iso(since),
    isComplete,
  };
}

/** The number of the config that decided the event behind the newest failure of a group; null if it is not known. */
async function findLastVersion(
  { store }: AdminDeps,
  { kind, example }: FailureGroup,
): Promise<number | null> {
  const runId = kind === "delivery" ? (await store.get("delivery", example))?.runId : example;
  const eventId = kind === "event" ? example : runId && (await store.get("run", runId))?.eventId;
  const config = eventId ? (await store.get("event", eventId))?.config : undefined;
  return config === undefined ? null : ((await store.get("config", config))?.number ?? null);
}

/**
 * Finds a group by its id, or by the one that it had before its cause named a sender: messages and notes may have that. Several
 * groups may have had it; then the one that failed last is found.
 */
async function findGroup(
  deps: AdminDeps,
  id: string,
): Promise<{ failure: FailureGroup; ids: GroupIds }> {
  const { groups, earlierIds } = await readGroups(deps, deps.clock.now() - WEEK_MS);
  const failure = found(
    groups.find((one) => one.id === id) ?? groups.find((one) => earlierIds.get(one.id) === id),
    "there is no group of failures with this id in the last seven days",
  );
  return { failure, ids: { id: failure.id, earlierId: earlierIds.get(failure.id) ?? failure.id } };
}

/**
 * Shows one group of failures. `lastVersion` is the number of the config in which it failed last; null if it is not known.
 * @throws RouseError `not_found` if nothing of it failed within a week.
 */
export async function showFailure(deps: AdminDeps, id: string) {
  const { failure } = await findGroup(deps, id);
  return { failure, lastVersion: await findLastVersion(deps, failure) };
}

/** The number of the config in use; null if it is not recorded. */
async function getVersion({ store, snapshot }: AdminDeps): Promise<number | null> {
  const id = snapshot().decidingConfig()?.id;
  return id === undefined ? null : ((await store.get("config", id))?.number ?? null);
}

/** What the admin API takes: a resolve is of the config in use if it names none. */
export type GroupRequest =
  | Exclude<GroupChange, { action: "resolve" }>
  | { action: "resolve"; version?: number | undefined };

/**
 * Assigns, snoozes, resolves or reopens a group, or takes the last change of it back. A resolved group is open again as soon as
 * something of it fails later. With `revision`, the group must not have been changed since it had this one.
 * @throws RouseError `not_found`, `conflict`, or `usage` if `until` is over or there is nothing to undo.
 */
export async function changeFailure(
  deps: AdminDeps,
  id: string,
  wanted: GroupRequest,
  revision?: number,
) {
  const { ids } = await findGroup(deps, id);
  const change =
    wanted.action === "resolve"
      ? { action: wanted.action, version: wanted.version ?? (await getVersion(deps)) }
      : wanted;
  await deps.failures.change(ids, change, revision);
  return showFailure(deps, ids.id);
}
