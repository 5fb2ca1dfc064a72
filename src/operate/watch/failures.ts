import { sha256Hex } from "../../core/secret.ts";
import { plural } from "../../core/text.ts";
import { addFailures, type FailureSum, type Ms } from "../../store/types.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { found, matches } from "../records/operation.ts";
import { iso, isoOrNull } from "../records/views.ts";
import type { AdminDeps } from "../types.ts";
import { readStates, type GroupState } from "./failure-states.ts";

export const GROUP_STATUSES = ["open", "resolved"] as const;
type GroupStatus = (typeof GROUP_STATUSES)[number];
export const GROUP_ACTIONS = ["resolve", "reopen"] as const;

/** Those that were changed last are kept. */
const MAX_STATES = 1000;

/** Failures of one kind and state that are looked at, what conditions leave out among them: the newest. */
const MAX_FAILURES = 2000;
const HOUR_MS = 3_600_000;
/** Hours of the line that shows how a group went. */
const HOURS = 24;
/** The time back to which groups are looked for by their id. */
const WEEK_MS = 7 * 24 * HOUR_MS;

interface FailureFilter {
  since: Ms;
  status?: GroupStatus | undefined;
  kind?: FailureSum["kind"] | undefined;
  path?: string | undefined;
  mapping?: string | undefined;
  sender?: string | undefined;
  limit: number;
}

/** Takes out of a reason what differs each time: ids, numbers, and how many actions failed in the same way. */
const generalize = (reason: string): string =>
  reason
    .replaceAll(/\b[a-z]{3}_[0-9a-v]{35}\b/g, "…")
    .replaceAll(/\d+/g, "#")
    .replaceAll(/(action #: [^;]+)(?:; \1)+/g, "$1");

/** An event fails at a mapping, or because its path has none; runs and deliveries fail at a provider or a channel, whatever started them. */
function toError(sum: FailureSum) {
  const { kind, state, path, mapping, code, reason, provider, channel } = sum;
  const isEvent = kind === "event";
  return {
    kind,
    /** `failed`, `unmatched`, `rejected`, `timed_out` or `no_route`; `accepted` if only some actions of events failed. */
    state,
    /** The path of events that no mapping is for. */
    path: isEvent && mapping === null ? path : null,
    /** The mapping that events failed at. */
    mapping: isEvent ? mapping : null,
    /** The error code. */
    code,
    /** The reason that events failed, without what differs each time. */
    reason: reason === null ? null : generalize(reason),
    /** The provider whose models gave no answer. */
    provider,
    channel,
  };
}

/** The cause that the failures of a group have in common. */
type GroupError = ReturnType<typeof toError>;

/** Returns whether a condition of a mapping leaves these events out, as its author wanted it to. */
const isLeftOut = ({ kind, state, code }: FailureSum): boolean =>
  kind === "event" && state === "unmatched" && code !== null;

/** Names who sent something, as people say it. */
function renderSender({ path, mapping, sender }: FailureSum): string {
  if (path !== null) return `hook ${path} (${sender})`;
  if (sender !== null) return sender.replace(/^api:/, "API key ").replace(/^channel:/, "channel ");
  return mapping === null ? "schedules and heartbeats" : `mapping ${mapping}`;
}

/** Failures of one group that are of the same sender. */
export type FailureSender = ReturnType<typeof toSenders>[number];

/** Counts failures by who sent what failed, the most first. Deliveries name no sender. */
function toSenders(sums: readonly FailureSum[]) {
  const bySender = Map.groupBy(
    sums.filter(({ kind }) => kind !== "delivery"),
    ({ path, mapping, sender }) => JSON.stringify([path, mapping, sender]),
  );
  return [...bySender.values()]
    .map((those) => {
      const sum = those.reduce(addFailures);
      const { path, mapping, sender, count, last } = sum;
      /** `name`: who it is in words. `sender`: the name of a credential, such as `path:shop` or `api:front`. */
      return { name: renderSender(sum), path, mapping, sender, count, lastSeen: iso(last) };
    })
    .toSorted((one, other) => other.count - one.count);
}

/** Says in a sentence what the failures of a group have in common. */
function renderTitle(error: GroupError): string {
  const { kind, state, path, mapping, code, reason, provider, channel } = error;
  if (kind === "delivery")
    return state === "no_route"
      ? "Replies have no route"
      : `Deliveries to ${channel} failed: ${code ?? "unknown"}`;
  if (kind === "run")
    return `Runs ${state === "timed_out" ? "timed out" : "failed"}${provider === null ? "" : ` at the provider ${provider}`}: ${code ?? "unknown"}`;
  const where = mapping === null ? `on ${path}` : `of ${mapping}`;
  if (state === "unmatched") return `No mapping matches hooks ${where}`;
  const what = state === "accepted" ? "failed in part" : state;
  return `Hooks ${where} ${what}: ${reason ?? "no reason is recorded"}`;
}

/** Failures with the same error. Times are ISO 8601; what is not there is null. */
export type FailureGroup = ReturnType<typeof toGroup>;

function toGroup(sums: readonly FailureSum[], states: readonly GroupState[], now: Ms) {
  const sum = sums.reduce(addFailures);
  const error = toError(sum);
  const id = `fgr_${sha256Hex(JSON.stringify(Object.values(error))).slice(0, 16)}`;
  const { resolvedAt } = states.find((one) => one.id === id) ?? {};
  const status: GroupStatus = (resolvedAt ?? -1) >= sum.last ? "resolved" : "open";
  const senders = toSenders(sums);
  const hours = Array.from({ length: HOURS }, () => 0);
  for (const { hour, count } of sums) {
    const index = hour - Math.floor(now / HOUR_MS) + HOURS - 1;
    if (index in hours) hours[index] = (hours[index] ?? 0) + count;
  }
  return {
    id,
    /** The cause of the failures, in a sentence. */
    title: renderTitle(error),
    ...error,
    /** The sender in words, or how many there are; null for deliveries. */
    from: senders.length > 1 ? `${senders.length} senders` : (senders[0]?.name ?? null),
    senders,
    /** The message of one of the failures. */
    message: sum.message,
    count: sum.count,
    firstSeen: iso(sum.first),
    lastSeen: iso(sum.last),
    /** Failures in each of the last 24 hours, the current one last. */
    hours,
    /** The id of the newest one. */
    example: sum.example,
    status,
    resolvedAt: isoOrNull(resolvedAt),
    /** True if it came back after it had been resolved. */
    isReopened: resolvedAt !== undefined && status === "open",
  };
}

/** Reads the groups since a time with what was done about them, those that failed last first. */
export async function readGroups({ store, clock }: Pick<AdminDeps, "store" | "clock">, since: Ms) {
  const [sums, states] = await Promise.all([
    store.failures.sum({ since, limit: MAX_FAILURES }),
    readStates(store),
  ]);
  const failures = sums.filter((sum) => !isLeftOut(sum));
  const groups = [...Map.groupBy(failures, (sum) => JSON.stringify(toError(sum))).values()].map(
    (those) => toGroup(those, states, clock.now()),
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
  const chosen = groups.filter(
    (one) => matches(one, { kind }) && [{}, ...one.senders].some((by) => matches(by, filter)),
  );
  const counts = Object.fromEntries(
    GROUP_STATUSES.map((name) => [name, chosen.filter((one) => one.status === name).length]),
  );
  const rows = chosen.filter((one) => matches(one, { status }));
  return {
    failures: rows.slice(0, limit),
    total: rows.length,
    counts: counts as Record<GroupStatus, number>,
    lastDay: renderLastDay(chosen),
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
  const failure = groups.find((one) => one.id === id);
  return { failure: found(failure, unknownId("failure", id)) };
}

/**
 * Resolves or reopens a group. A resolved one is open again as soon as something of it fails later.
 * @throws RouseError `not_found`
 */
export async function changeFailure(
  deps: AdminDeps,
  id: string,
  { action }: { action: (typeof GROUP_ACTIONS)[number] },
) {
  await showFailure(deps, id);
  await deps.failures.change((list) => {
    const resolved = action === "resolve" ? [{ id, resolvedAt: deps.clock.now() }] : [];
    const others = list.filter((one) => one.id !== id);
    return { list: [...resolved, ...others].slice(0, MAX_STATES), result: undefined };
  });
  return showFailure(deps, id);
}
