import {
  deliveryState,
  getListLimit,
  mergeActivity,
  mergeFailures,
  mergeUsage,
  RUN_STATUSES,
  sessionId,
  toDeliveryFailure,
  toEventFailure,
  toReads,
  toRunFailure,
  type ApprovalRecord,
  type ApprovalState,
  type FailureSum,
  type ListQuery,
  type Ms,
  type RunRecord,
  type SessionRecord,
  type Store,
  type UsageKey,
  type UsageSum,
} from "rouse/store-kit";
import type { Data } from "./data.ts";

/** All states that are counted, so that those without a record count as 0. */
const STATES = {
  events: ["accepted", "skipped", "unmatched", "duplicate", "rejected", "failed"],
  runs: RUN_STATUSES,
  deliveries: ["pending", "delivered", "failed", "unknown", "no_route"],
  sessions: ["main", "hook", "api", "channel"],
  systemEvents: ["queued", "done", "parked"],
  approvals: ["open", "decided"],
  jobs: ["turn", "delivery", "command"],
};

const getApprovalState = ({ decision }: ApprovalRecord): ApprovalState =>
  decision ? "decided" : "open";

function count(data: Data): Record<string, number> {
  const found: Record<keyof typeof STATES, string[]> = {
    events: [...data.events.values()].map(({ outcome }) => outcome),
    runs: [...data.runs.values()].map(({ status }) => status),
    deliveries: [...data.deliveries.values()].map(deliveryState),
    sessions: [...data.sessions.values()].map(({ ref }) => ref.origin),
    systemEvents: [...data.systemEvents.values()].map(({ state }) => state),
    approvals: [...data.approvals.values()].map(getApprovalState),
    jobs: data.jobs.kinds(),
  };
  const counts: Record<string, number> = {};
  for (const [table, states] of Object.entries(STATES))
    for (const state of states) counts[`${table}.${state}`] = 0;
  for (const [table, states] of Object.entries(found))
    for (const state of states)
      counts[`${table}.${state}`] = (counts[`${table}.${state}`] ?? 0) + 1;
  return counts;
}

/** A value that a query asks for, and the record's own. */
type Condition = readonly [wanted: unknown, value: unknown];

interface View {
  id: string;
  at: Ms;
  conditions: readonly Condition[];
}

/** A page of records, the last of `records` first. */
function getPage<T>(records: Iterable<T>, query: ListQuery, view: (record: T) => View): T[] {
  const newest = [...records].toReversed();
  const { before, idPrefix = "", since = 0 } = query;
  const start =
    before === undefined ? 0 : newest.findIndex((record) => view(record).id === before) + 1;
  if (before !== undefined && start === 0) return [];
  const matches = (record: T): boolean => {
    const { id, at, conditions } = view(record);
    return (
      at >= since &&
      id.startsWith(idPrefix) &&
      conditions.every(([wanted, value]) => wanted === undefined || wanted === value)
    );
  };
  return newest.slice(start).filter(matches).slice(0, getListLimit(query));
}

/** Sessions, the last used at the end. */
const byUse = (sessions: Iterable<SessionRecord>): SessionRecord[] =>
  [...sessions].toSorted(
    (one, other) =>
      one.lastUsedAt - other.lastUsedAt || (sessionId(one.ref) < sessionId(other.ref) ? -1 : 1),
  );

/** All runs; with a time of their end, those that ended in it, the last at the end. */
function getRunsByEnd(
  data: Data,
  { endedSince, endedUntil }: { endedSince?: Ms; endedUntil?: Ms },
): RunRecord[] {
  const runs = [...data.runs.values()];
  if (endedSince === undefined && endedUntil === undefined) return runs;
  const [since, until] = [endedSince ?? 0, endedUntil ?? Infinity];
  return runs
    .filter(({ endedAt }) => endedAt !== undefined && endedAt >= since && endedAt < until)
    .toSorted((one, other) => (one.endedAt ?? 0) - (other.endedAt ?? 0));
}

const getEndedRuns = (data: Data, since: number): RunRecord[] =>
  [...data.runs.values()].filter((run) => run.endedAt !== undefined && run.createdAt >= since);

/** What one run has used. */
function toUsageSum(
  { mapping, kind, spec, model, endedAt = 0, usage = {} }: RunRecord,
  by: UsageKey,
): UsageSum {
  const keys: Record<UsageKey, string> = {
    mapping: mapping ?? `(${kind})`,
    agent: spec.session.agentId,
    model: model ?? "(no model)",
    day: new Date(endedAt).toISOString().slice(0, 10),
  };
  const {
    inputTokens = 0,
    cachedInputTokens = 0,
    cacheWriteTokens = 0,
    outputTokens = 0,
    costUsd = null,
  } = usage;
  const unpricedRuns = costUsd === null && Object.keys(usage).length > 0 ? 1 : 0;
  return {
    key: keys[by],
    runs: 1,
    inputTokens,
    cachedInputTokens,
    cacheWriteTokens,
    outputTokens,
    costUsd,
    unpricedRuns,
  };
}

const createTable = (data: Data): Parameters<typeof toReads>[0] => ({
  get: {
    event: async (id) => data.events.get(id),
    run: async (id) => data.runs.get(id),
    delivery: async (id) => data.deliveries.get(id),
    session: async (ref) => data.sessions.get(sessionId(ref)),
    checkpoint: async (ref) =>
      data.turns.get(sessionId(ref))?.findLast(({ checkpoint }) => checkpoint),
    value: async (key) => data.values.get(key),
    approval: async (id) => data.approvals.get(id),
    toolResult: async (id) => data.toolResults.get(id),
    config: async (id) => data.configs.get(id),
    eventNumber: async ({ id }) =>
      id === undefined ? [...data.eventNumbers.values()].at(-1) : data.eventNumbers.get(id),
    async queuedSince() {
      const queued = [...data.runs.values()].filter(({ status }) => status === "queued");
      return queued.length === 0
        ? undefined
        : Math.min(...queued.map(({ createdAt, waitSince = createdAt }) => waitSince));
    },
  },
  list: {
    async events(query) {
      const failed = new Set(
        [...data.runs.values()].flatMap((run) =>
          /^(failed|timed_out)$/.test(run.status) ? [run.eventId] : [],
        ),
      );
      return getPage(data.events.values(), query, ({ id, receivedAt, outcome, path, mapping }) => ({
        id,
        at: receivedAt,
        conditions: [
          [query.outcome, outcome],
          [query.path, path],
          [query.mapping, mapping],
          [query.failedRuns || undefined, failed.has(id)],
        ],
      }));
    },
    runs: async (query) =>
      getPage(getRunsByEnd(data, query), query, ({ id, createdAt, status, spec, eventId }) => ({
        id,
        at: createdAt,
        conditions: [
          [query.status, status],
          [query.sessionKey, spec.session.key],
          [query.eventId, eventId],
        ],
      })),
    deliveries: async (query) =>
      getPage(data.deliveries.values(), query, (delivery) => ({
        id: delivery.id,
        at: delivery.createdAt,
        conditions: [
          [query.status, query.status === "failed" ? delivery.status : deliveryState(delivery)],
          [query.channel, delivery.route.channel],
        ],
      })),
    systemEvents: async (query) =>
      getPage(data.systemEvents.values(), query, ({ id, at, agentId, state }) => ({
        id,
        at,
        conditions: [
          [query.agentId, agentId],
          [query.state, state],
        ],
      })),
    sessions: async (query) =>
      getPage(byUse(data.sessions.values()), query, ({ ref, lastUsedAt }) => ({
        id: sessionId(ref),
        at: lastUsedAt,
        conditions: [
          [query.origin, ref.origin],
          [query.agentId, ref.agentId],
        ],
      })),
    queuedSystemEvents: async ({ agentId, limit }) =>
      [...data.systemEvents.values()]
        .filter((event) => event.agentId === agentId && event.state === "queued")
        .slice(0, limit),
    async turns({ limit = Infinity, before = Infinity, after = 0, ...ref }) {
      const turns = data.turns.get(sessionId(ref)) ?? [];
      const wanted = turns.filter(({ seq }) => seq < before && seq > after);
      return wanted.slice(Math.max(0, wanted.length - limit));
    },
    hookSessions: async ({ agentId, key }) =>
      byUse(data.sessions.values())
        .filter(({ ref }) => ref.origin === "hook" && ref.agentId === agentId && ref.key === key)
        .toReversed(),
    steps: async (runId) =>
      [...data.steps.values()]
        .filter((step) => step.runId === runId)
        .toSorted((one, other) => one.index - other.index),
    usage: async (query) =>
      mergeUsage(getEndedRuns(data, query.since).map((run) => toUsageSum(run, query.by))),
    activity: async ({ since, step, limit }) =>
      mergeActivity(
        [...data.events.values()]
          .filter(({ receivedAt }) => receivedAt >= since)
          .slice(-limit)
          .map(({ receivedAt, outcome }) => ({
            at: Math.floor(receivedAt / step) * step,
            outcome,
            count: 1,
          })),
      ),
    failures: async ({ since, limit }) => {
      const newest = (found: (FailureSum | undefined)[]): FailureSum[] =>
        found.flatMap((one) => (one && one.last >= since ? [one] : [])).slice(-limit);
      return mergeFailures([
        ...newest([...data.events.values()].map(toEventFailure)),
        ...newest([...data.runs.values()].map(toRunFailure)),
        ...newest([...data.deliveries.values()].map(toDeliveryFailure)),
      ]);
    },
    approvals: async (query) =>
      getPage(data.approvals.values(), query, (approval) => ({
        id: approval.id,
        at: approval.askedAt,
        conditions: [
          [query.state, getApprovalState(approval)],
          [query.runId, approval.runId],
          [query.agents?.includes(approval.agentId) === false ? "" : undefined, approval.agentId],
        ],
      })),
    eventNumbers: async ({ after, limit }) =>
      [...data.eventNumbers.values()].filter((number) => number > after).slice(0, limit),
    numberedEvents: async (numbers) =>
      [...data.eventNumbers].flatMap(([id, number]) => {
        const event = data.events.get(id);
        return event && numbers.includes(number) ? [{ number, event }] : [];
      }),
    collected: async (runId) => data.collected.get(runId) ?? [],
    lastRoutes: async (agentId) =>
      [...data.lastRoutes.values()]
        .filter((route) => route.agentId === agentId)
        .toSorted((one, other) => other.at - one.at),
  },
});

/** The reading side. Callers get copies, so that nothing but a commit changes what is kept. */
export function createReads(data: Data): Pick<Store, "get" | "list" | "counts"> {
  const reads = toReads(createTable(data));
  return {
    get: async (kind, of) => structuredClone(await reads.get(kind, of)),
    list: async (kind, of) => structuredClone(await reads.list(kind, of)),
    counts: async () => count(data),
  };
}
