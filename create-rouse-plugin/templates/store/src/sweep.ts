import {
  AHEAD_MS,
  getUnusedBefore,
  redactActions,
  redactApproval,
  redactDebug,
  redactHead,
  redactSpec,
  redactStep,
  redactSystemEvent,
  redactToolCall,
  redactToolResult,
  toEvent,
  toEventRow,
  type EventRecord,
  type Ms,
  type Retention,
  type RunRecord,
  type StepRecord,
  type ToolCallRecord,
} from "rouse/store-kit";
import type { Data } from "./data.ts";

/** Deletes the records that may go. Returns how many went. */
function deleteAll<T>(records: Map<string, T>, mayGo: (record: T, id: string) => boolean): number {
  const gone = [...records].filter(([id, record]) => mayGo(record, id));
  for (const [id] of gone) records.delete(id);
  return gone.length;
}

/** An event without its body and what quotes it, and with `everything` without all that came from outside. */
function redactEvent(event: EventRecord, everything: boolean): EventRecord {
  const row = toEventRow({ ...event, request: { ...event.request, body: null } });
  if (!everything) return toEvent({ ...row, head: redactDebug(row.head) });
  return toEvent({ ...row, head: redactHead(row.head), actions: redactActions(row.actions) });
}

function dropBodies(
  data: Data,
  cutoff: Ms,
  unfinished: ReadonlySet<string | null>,
  everything: boolean,
): number {
  const old = [...data.events.values()].filter(
    ({ id, receivedAt, request }) =>
      receivedAt <= cutoff && request.body !== null && !unfinished.has(id),
  );
  for (const event of old) data.events.set(event.id, redactEvent(event, everything));
  return old.length;
}

/** Redacts the JSON of records. Returns how many it changed. */
function redactAll<T>(
  records: Map<string, T>,
  isUsed: (record: T) => boolean,
  redact: (text: string) => string,
): number {
  let changed = 0;
  for (const [id, record] of records) {
    const before = JSON.stringify(record);
    const after = isUsed(record) ? redact(before) : before;
    if (after === before) continue;
    records.set(id, JSON.parse(after) as T);
    changed++;
  }
  return changed;
}

const redactRun = (text: string): string => {
  const { spec, ...run } = JSON.parse(text) as RunRecord;
  const redacted = redactSpec(JSON.stringify(spec));
  return redacted === undefined
    ? text
    : JSON.stringify({ ...run, spec: JSON.parse(redacted) as RunRecord["spec"] });
};

function redactWholeStep(text: string): string {
  const { calls, ...step } = JSON.parse(text) as StepRecord;
  const kept = JSON.parse(redactStep(JSON.stringify(step))) as StepRecord;
  return JSON.stringify({
    ...kept,
    calls: calls.map((call) => JSON.parse(redactToolCall(JSON.stringify(call))) as ToolCallRecord),
  });
}

/** What runs were given, did and asked, and system events said, once it has been used up. A failed run of a hook may be retried. */
function redactUsed(data: Data): number {
  const isDone = (run: RunRecord | undefined): boolean =>
    run?.endedAt !== undefined &&
    (/^(succeeded|cancelled)$/.test(run.status) || run.eventId === null);
  const isOfDone = ({ runId }: { runId: string }): boolean => isDone(data.runs.get(runId));
  return (
    redactAll(data.runs, isDone, redactRun) +
    redactAll(data.steps, isOfDone, redactWholeStep) +
    redactAll(data.toolResults, isOfDone, redactToolResult) +
    redactAll(data.approvals, isOfDone, redactApproval) +
    redactAll(data.systemEvents, ({ state }) => state === "done", redactSystemEvent)
  );
}

/** Deletes what happened in runs that are not kept any more, and the files of deliveries that are not. */
function dropParts(data: Data): void {
  for (const parts of [data.steps, data.toolResults, data.approvals] as Map<
    string,
    { runId: string }
  >[])
    deleteAll(parts, ({ runId }) => !data.runs.has(runId) && !data.deliveries.has(runId));
}

/** Deletes the oldest turns of main and channel sessions that have too many: those that a checkpoint covers, and all beyond twice as many. */
function trimSessions(data: Data, keep: number): number {
  let changed = 0;
  for (const [id, session] of data.sessions) {
    const turns = data.turns.get(id) ?? [];
    if (session.ref.origin !== "main" && session.ref.origin !== "channel") continue;
    const covered = turns.findLast(({ checkpoint }) => checkpoint)?.checkpoint?.covered ?? 0;
    const kept = turns.filter(({ seq }, at) => {
      const newer = turns.length - at;
      return newer <= keep || (seq > covered && newer <= 2 * keep);
    });
    data.turns.set(id, kept);
    session.turns -= turns.length - kept.length;
    changed += turns.length - kept.length;
  }
  return changed;
}

/** The events whose runs have not all ended. */
const getUnfinished = (data: Data): Set<string | null> =>
  new Set(
    [...data.runs.values()].flatMap((run) => (run.endedAt === undefined ? [run.eventId] : [])),
  );

/** When the oldest event was received that still has its body though its runs have ended. */
export function getOldestBody(data: Data, now: Ms): Ms | undefined {
  const unfinished = getUnfinished(data);
  const kept = [...data.events.values()].filter(
    ({ id, request }) => request.body !== null && !unfinished.has(id),
  );
  const times = kept.map(({ receivedAt }) => receivedAt).filter((at) => at <= now + AHEAD_MS);
  return times.length === 0 ? undefined : Math.min(...times);
}

/** Deletes the configs that are in use no more and of which no event is kept. */
function dropConfigs(data: Data, before: Ms): number {
  const named = new Set([...data.events.values()].map(({ config }) => config));
  return deleteAll(data.configs, ({ id, lastUsedAt }) => lastUsedAt < before && !named.has(id));
}

/** Deletes what retention lets go of. Returns how many records went or were changed. */
export function sweep(data: Data, now: Ms, keep: Retention): number {
  const ended = (before: Ms) => (record: { createdAt: Ms; endedAt?: Ms }) =>
    record.createdAt < before && record.endedAt !== undefined && record.endedAt < before;
  const unfinished = getUnfinished(data);
  const sessionAge: Partial<Record<string, Ms>> = {
    hook: keep.hookSessions,
    api: keep.apiSessions,
  };
  const isUnused = ({ ref, lastUsedAt }: { ref: { origin: string }; lastUsedAt: Ms }): boolean =>
    lastUsedAt < now - (sessionAge[ref.origin] ?? Infinity);
  const changed =
    dropBodies(data, now - keep.bodies, unfinished, keep.bodies === 0) +
    (keep.bodies === 0 ? redactUsed(data) : 0) +
    deleteAll(
      data.events,
      ({ id, receivedAt }) =>
        receivedAt < now - keep.events &&
        !unfinished.has(id) &&
        (data.eventNumbers.delete(id), true),
    ) +
    deleteAll(data.runs, ended(now - keep.runs)) +
    deleteAll(data.systemEvents, ({ at, state }) => at < now - keep.events && state !== "queued") +
    deleteAll(data.deliveries, ended(now - keep.deliveries)) +
    deleteAll(data.sessions, (session, id) => isUnused(session) && (data.turns.delete(id), true)) +
    trimSessions(data, keep.sessionTurns) +
    deleteAll(data.keys, ({ expiresAt }) => expiresAt <= now) +
    dropConfigs(data, getUnusedBefore(now, keep.events));
  dropParts(data);
  return changed;
}
