import { sha256Hex } from "../../core/secret.ts";
import { addFailures, type FailureSum, type Ms } from "../../store/types.ts";
import { readStates, type GroupChange, type GroupState } from "./failure-states.ts";
import { found } from "../records/operation.ts";
import type { AdminDeps } from "../types.ts";
import { iso } from "../records/views.ts";
import {
  GROUP_STATUSES,
  type FailureGroup,
  type FailureSender,
  type GroupStatus,
} from "./watch-views.ts";
import { plural } from "../../core/text.ts";

/** Failures of one kind and state that are looked at, what conditions leave out among them: the newest. */
const MAX_FAILURES = 2000;
const HOUR_MS = 3_600_000;
/** Hours of the line that shows how a group went. */
const HOURS = 24;
/** How far back groups are looked for by their id. */
const WEEK_MS = 7 * 24 * HOUR_MS;

interface FailureFilter {
  since: Ms;
  status?: GroupStatus | undefined;
  kind?: FailureGroup["kind"] | undefined;
  path?: string | undefined;
  mapping?: string | undefined;
  sender?: string | undefined;
  limit: number;
}

/** What the failures of a group have in common. */
type GroupError = Pick<
  FailureGroup,
  "kind" | "state" | "path" | "mapping" | "code" | "reason" | "provider" | "channel"
>;

/** Takes out of a reason what differs each time, such as ids and numbers. */
const generalize = (reason: string): string =>
  reason.replaceAll(/\b[a-z]{3}_[0-9a-v]{35}\b/g, "…").replaceAll(/\d+/g, "#");

/** An event fails at a mapping, or because its path has none; runs and deliveries fail at a provider or a channel, whatever started them. */
function toError(sum: FailureSum): GroupError {
  const { kind, state, path, mapping, code, reason, provider, channel } = sum;
  const isEvent = kind === "event";
  return {
    kind,
    state,
    path: isEvent && mapping === null ? path : null,
    mapping: isEvent ? mapping : null,
    code,
    reason: reason === null ? null : generalize(reason),
    provider,
    channel,
  };
}

/** Whether a condition of a mapping leaves these events out, as its author wanted it to. */
const isLeftOut = ({ kind, state, code }: FailureSum): boolean =>
  kind === "event" && state === "unmatched" && code !== null;

/** Names who sent something, as people say it. */
function renderSender({ path, mapping, sender }: FailureSum): string {
  if (path !== null) return `hook ${path} (${sender})`;
  if (sender !== null) return sender.replace(/^api:/, "API key ").replace(/^channel:/, "channel ");
  return mapping === null ? "schedules and heartbeats" : `mapping ${mapping}`;
}

/** Counts failures by who sent what failed, the most first. Deliveries name no sender. */
function toSenders(sums: readonly FailureSum[]): FailureSender[] {
  const bySender = Map.groupBy(sums, ({ path, mapping, sender }) =>
    JSON.stringify([path, mapping, sender]),
  );
  return [...bySender.values()]
    .flatMap((those) => {
      const sum = those.reduce(addFailures);
      const { kind, path, mapping, sender, count, last } = sum;
      const name = renderSender(sum);
      return kind === "delivery"
        ? []
        : [{ name, path, mapping, sender, count, lastSeen: iso(last) }];
    })
    .toSorted((one, other) => other.count - one.count);
}

/** Says in a sentence what the failures of a group have in common. */
function renderTitle({
  kind,
  state,
  path,
  mapping,
  code,
  reason,
  provider,
  channel,
}: GroupError): string {
  if (kind === "delivery")
    return state === "no_route"
      ? "Replies have no route"
      : `Deliveries to ${channel} failed: ${code ?? "unknown"}`;
  if (kind === "run")
    return `Runs ${state === "timed_out" ? "timed out" : "failed"}${provider === null ? "" : ` at the provider ${provider}`}: ${code ?? "unknown"}`;
  const where = mapping === null ? `on ${path}` : `of ${mapping}`;
  if (state === "unmatched") return `No mapping matches hooks ${where}`;
  return `Hooks ${where} ${state}: ${reason ?? "no reason is recorded"}`;
}

function getStatus({ snoozedUntil, resolved }: GroupState, last: Ms, now: Ms): GroupStatus {
  if (resolved && resolved.at >= last) return "resolved";
  return snoozedUntil !== undefined && snoozedUntil > now ? "snoozed" : "open";
}

function toGroup(
  sums: readonly FailureSum[],
  find: (id: string) => GroupState,
  now: Ms,
): FailureGroup {
  const sum = sums.reduce(addFailures);
  const error = toError(sum);
  const id = `fgr_${sha256Hex(JSON.stringify(Object.values(error))).slice(0, 16)}`;
  const state = find(id);
  const { snoozedUntil, resolved } = state;
  const status = getStatus(state, sum.last, now);
  const senders = toSenders(sums);
  const hours = Array.from({ length: HOURS }, () => 0);
  for (const { hour, count } of sums) {
    const index = hour - Math.floor(now / HOUR_MS) + HOURS - 1;
    if (index in hours) hours[index] = (hours[index] ?? 0) + count;
  }
  return {
    id,
    title: renderTitle(error),
    ...error,
    from: senders.length > 1 ? `${senders.length} senders` : (senders[0]?.name ?? null),
    senders,
    message: sum.message,
    count: sum.count,
    firstSeen: iso(sum.first),
    lastSeen: iso(sum.last),
    hours,
    example: sum.example,
    status,
    snoozedUntil: status === "snoozed" && snoozedUntil !== undefined ? iso(snoozedUntil) : null,
    resolved: resolved ? { at: iso(resolved.at), version: resolved.version } : null,
    isReopened: resolved !== undefined && status !== "resolved",
  };
}

/** Reads the groups since a time with what was done about them, those that failed last first. */
export async function readGroups({ store, clock }: Pick<AdminDeps, "store" | "clock">, since: Ms) {
  const [sums, find] = await Promise.all([
    store.failures.sum({ since, limit: MAX_FAILURES }),
    readStates(store),
  ]);
  const failures = sums.filter((sum) => !isLeftOut(sum));
  const groups = [...Map.groupBy(failures, (sum) => JSON.stringify(toError(sum))).values()].map(
    (those) => toGroup(those, find, clock.now()),
  );
  const counted = Map.groupBy(sums, ({ kind, state }) => `${kind} ${state}`);
  const isComplete = [...counted.values()].every(
    (those) => those.reduce((sum, { count }) => sum + count, 0) < MAX_FAILURES,
  );
  return {
    groups: groups.toSorted((one, other) => (one.lastSeen < other.lastSeen ? 1 : -1)),
    isComplete,
  };
}

const KINDS = [
  ["run", "run", "runs"],
  ["delivery", "delivery", "deliveries"],
  ["event", "hook", "hooks"],
] as const;

/** Says in a sentence how much of what is open has failed in the last 24 hours; null if nothing has. */
function renderLastDay(groups: readonly FailureGroup[]): string | null {
  const open = groups.filter(({ status }) => status === "open");
  const parts = KINDS.flatMap(([kind, one, many]) => {
    const count = open
      .flatMap((group) => (group.kind === kind ? group.hours : []))
      .reduce((sum, failed) => sum + failed, 0);
    return count === 0 ? [] : [plural(count, one, many)];
  });
  return parts.length === 0 ? null : `${parts.join(", ")} failed in the last 24 hours`;
}

/**
 * Lists groups of failures; `path`, `mapping` and `sender` choose those in which one of the senders has them. `isComplete` is
 * false if only the newest failures were looked at: then counts are too low.
 */
export async function listFailures(
  deps: AdminDeps,
  { since, status, limit, kind, ...filter }: FailureFilter,
) {
  const { groups, isComplete } = await readGroups(deps, since);
  const has = (of: object, wanted: object): boolean =>
    Object.entries(wanted).every(
      ([name, value]) => value === undefined || Reflect.get(of, name) === value,
    );
  const chosen = groups.filter(
    (one) => has(one, { kind }) && [{}, ...one.senders].some((by) => has(by, filter)),
  );
  const counts = Object.fromEntries(
    GROUP_STATUSES.map((name) => [name, chosen.filter((one) => one.status === name).length]),
  );
  const rows = chosen.filter((one) => status === undefined || one.status === status);
  return {
    failures: rows.slice(0, limit),
    total: rows.length,
    counts: counts as Record<GroupStatus, number>,
    lastDay: renderLastDay(chosen),
    since: iso(since),
    isComplete,
  };
}

/** The number of the config that decided the event behind the newest failure of a group; null if it is not known. */
async function findLastVersion(
  { store }: AdminDeps,
  { kind, example }: FailureGroup,
): Promise<number | null> {
  const runId = kind === "delivery" ? (await store.deliveries.get(example))?.runId : example;
  const eventId = kind === "event" ? example : runId && (await store.runs.get(runId))?.eventId;
  const config = eventId ? (await store.events.get(eventId))?.config : undefined;
  return config === undefined ? null : ((await store.configs.get(config))?.number ?? null);
}

async function findGroup(deps: AdminDeps, id: string): Promise<FailureGroup> {
  const { groups } = await readGroups(deps, deps.clock.now() - WEEK_MS);
  return found(
    groups.find((one) => one.id === id),
    "there is no group of failures with this id in the last seven days",
  );
}

/**
 * Shows one group of failures. `lastVersion` is the number of the config in which it failed last; null if it is not known.
 * @throws RouseError `not_found` if nothing of it failed within a week.
 */
export async function showFailure(deps: AdminDeps, id: string) {
  const failure = await findGroup(deps, id);
  return { failure, lastVersion: await findLastVersion(deps, failure) };
}

/** The number of the config in use; null if it is not recorded. */
async function getVersion({ store, snapshot }: AdminDeps): Promise<number | null> {
  const id = snapshot().decidingConfig()?.id;
  return id === undefined ? null : ((await store.configs.get(id))?.number ?? null);
}

/**
 * Snoozes, resolves or reopens a group. A resolve is of the config in use; the group is open again as soon as something of it fails
 * later.
 * @throws RouseError `not_found`, or `usage` if `until` is over.
 */
export async function changeFailure(deps: AdminDeps, id: string, wanted: GroupChange) {
  await findGroup(deps, id);
  await deps.failures.change(id, wanted, await getVersion(deps));
  return showFailure(deps, id);
}
