import { RouseError } from "../core/errors.ts";
import { sha256Hex } from "../core/secret.ts";
import { addFailures, type FailureCause, type FailureSum, type Ms, type Store } from "../store/types.ts";
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

/** What people have done about a group. It is kept for as long as the store. */
interface GroupState {
  assignee?: string;
  snoozedUntil?: Ms;
  resolved?: { at: Ms; version: number | null };
}

/** A change of a group. `version` is the number of the config that resolved it; by default that in use. */
export type GroupChange =
  | { action: "assign"; assignee: string | null }
  | { action: "snooze"; until: Ms }
  | { action: "resolve"; version?: number | undefined }
  | { action: "reopen" };

export interface FailureFilter {
  since: Ms;
  status?: GroupStatus | undefined;
  kind?: FailureCause["kind"] | undefined;
  path?: string | undefined;
  mapping?: string | undefined;
  assignee?: string | undefined;
  limit: number;
}

/** Failures of one cause. */
interface Group {
  id: string;
  cause: FailureCause;
  sum: FailureSum;
  hours: ReadonlyMap<number, number>;
}

/** Takes out of a reason what differs each time, such as ids and numbers. */
const generalize = (reason: string): string => reason.replaceAll(/\b[a-z]{3}_[0-9a-v]{35}\b/g, "…").replaceAll(/\d+/g, "#");

function toCause({ kind, state, path, mapping, code, reason, channel }: FailureSum): FailureCause {
  return { kind, state, path, mapping, code, reason: reason === null ? null : generalize(reason), channel };
}

const toId = (cause: FailureCause): string => `fgr_${sha256Hex(JSON.stringify(Object.values(cause))).slice(0, 16)}`;
const toKey = (id: string): string => `failures.${id}`;

function group(sums: readonly FailureSum[]): Group[] {
  const groups = new Map<string, { cause: FailureCause; sum: FailureSum; hours: Map<number, number> }>();
  for (const one of sums) {
    const cause = toCause(one);
    const id = toId(cause);
    const known = groups.get(id);
    const made = known ? { ...known, sum: addFailures(known.sum, one) } : { cause, sum: one, hours: new Map<number, number>() };
    made.hours.set(one.hour, (made.hours.get(one.hour) ?? 0) + one.count);
    groups.set(id, made);
  }
  return [...groups].map(([id, rest]) => ({ id, ...rest }));
}

/** Says in a sentence what the failures of a group have in common. */
function renderTitle({ kind, state, path, mapping, code, reason, channel }: FailureCause): string {
  const where = path === null ? "" : ` on ${path}`;
  const by = mapping === null ? "" : ` of ${mapping}`;
  if (kind === "delivery") return state === "no_route" ? "Replies have no route" : `Deliveries to ${channel} failed: ${code ?? "unknown"}`;
  if (kind === "run") return `Runs${by}${where} ${state === "timed_out" ? "timed out" : "failed"}: ${code ?? "unknown"}`;
  if (state === "unmatched") return code === null ? `No mapping matches hooks${where}` : `Hooks${where}: ${code}${by} does not hold`;
  return `Hooks${by}${where} ${state}: ${reason ?? "no reason is recorded"}`;
}

function getStatus({ snoozedUntil, resolved }: GroupState, last: Ms, now: Ms): GroupStatus {
  if (resolved && resolved.at >= last) return "resolved";
  return snoozedUntil !== undefined && snoozedUntil > now ? "snoozed" : "open";
}

function groupView({ id, cause, sum, hours }: Group, state: GroupState, now: Ms): FailureGroup {
  const { assignee, snoozedUntil, resolved } = state;
  const status = getStatus(state, sum.last, now);
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
  };
}

const readState = async (store: Store, id: string): Promise<GroupState> =>
  ((await store.get("value", toKey(id))) as GroupState | undefined) ?? {};

/** Reads the groups since a time with what was done about them, those that failed last first. */
export async function readGroups({ store, clock }: Pick<AdminDeps, "store" | "clock">, since: Ms) {
  const sums = await store.list("failures", { since, limit: MAX_FAILURES });
  const groups = group(sums);
  const states = await Promise.all(groups.map(({ id }) => readState(store, id)));
  const views = groups.map((one, index) => groupView(one, states[index] ?? {}, clock.now()));
  const counted = Map.groupBy(sums, ({ kind, state }) => `${kind} ${state}`);
  const isComplete = [...counted.values()].every((those) => those.reduce((sum, { count }) => sum + count, 0) < MAX_FAILURES);
  return { groups: views.toSorted((one, other) => (one.lastSeen < other.lastSeen ? 1 : -1)), isComplete };
}

/** Lists groups of failures. `isComplete` is false if only the newest failures were looked at: then counts are too low. */
export async function listFailures(deps: AdminDeps, { since, status, limit, ...filter }: FailureFilter) {
  const { groups, isComplete } = await readGroups(deps, since);
  const wanted = Object.entries(filter).filter(([, value]) => value !== undefined);
  const chosen = groups.filter((one) => wanted.every(([name, value]) => one[name as "path"] === value));
  const counts = Object.fromEntries(GROUP_STATUSES.map((name) => [name, chosen.filter((one) => one.status === name).length]));
  const rows = chosen.filter((one) => status === undefined || one.status === status);
  return {
    failures: rows.slice(0, limit),
    total: rows.length,
    counts: counts as Record<GroupStatus, number>,
    since: iso(since),
    isComplete,
  };
}

/**
 * Shows one group of failures.
 * @throws RouseError `not_found` if nothing of it failed within a week.
 */
export async function showFailure(deps: AdminDeps, id: string) {
  const { groups } = await readGroups(deps, deps.clock.now() - WEEK_MS);
  return {
    failure: found(
      groups.find((one) => one.id === id),
      "there is no group of failures with this id in the last seven days",
    ),
  };
}

/** The number of the config in use; null if it is not recorded. */
async function getVersion({ store, snapshot }: AdminDeps): Promise<number | null> {
  const id = snapshot().decidingConfig()?.id;
  return id === undefined ? null : ((await store.get("config", id))?.number ?? null);
}

function checkUntil(until: Ms, now: Ms): Ms {
  if (until > now) return until;
  throw new RouseError({ code: "usage", message: "until: name a time in the future" });
}

async function change(deps: AdminDeps, state: GroupState, wanted: GroupChange): Promise<GroupState> {
  const now = deps.clock.now();
  const { assignee, snoozedUntil: _snoozed, resolved: _resolved, ...rest } = state;
  const kept: GroupState = { ...rest, ...(assignee === undefined ? {} : { assignee }) };
  switch (wanted.action) {
    case "assign": {
      const { assignee: _before, ...others } = state;
      return wanted.assignee === null ? others : { ...others, assignee: wanted.assignee };
    }
    case "snooze":
      return { ...kept, snoozedUntil: checkUntil(wanted.until, now) };
    case "resolve":
      return { ...kept, resolved: { at: now, version: wanted.version ?? (await getVersion(deps)) } };
    default:
      return kept;
  }
}

/**
 * Assigns, snoozes, resolves or reopens a group. A resolved group is open again as soon as something of it fails later.
 * @throws RouseError `not_found`, or `usage` if `until` is over.
 */
export async function changeFailure(deps: AdminDeps, id: string, wanted: GroupChange) {
  await showFailure(deps, id);
  const state = await change(deps, await readState(deps.store, id), wanted);
  await deps.store.commit((tx) => tx.set("value", toKey(id), state));
  return showFailure(deps, id);
}
