import {
  redactActions,
  redactDebug,
  redactHead,
  redactSpec,
  redactSystemEvent,
  toEvent,
  toEventRow,
  type EventRecord,
  type Ms,
  type Retention,
  type RunRecord,
  type SystemEvent,
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

function dropBodies(data: Data, cutoff: Ms, unfinished: ReadonlySet<string | null>, everything: boolean): number {
  const old = [...data.events.values()].filter(
    ({ id, receivedAt, request }) => receivedAt <= cutoff && request.body !== null && !unfinished.has(id),
  );
  for (const event of old) data.events.set(event.id, redactEvent(event, everything));
  return old.length;
}

/** What runs were given and system events said, once it has been used up. A failed run of a hook may be retried. */
function redactUsed(data: Data): number {
  let changed = 0;
  for (const run of data.runs.values()) {
    const used = run.endedAt !== undefined && (/^(succeeded|cancelled)$/.test(run.status) || run.eventId === null);
    const spec = used ? redactSpec(JSON.stringify(run.spec)) : undefined;
    if (spec === undefined) continue;
    run.spec = JSON.parse(spec) as RunRecord["spec"];
    changed++;
  }
  for (const event of data.systemEvents.values()) {
    const before = JSON.stringify(event);
    const after = event.state === "done" ? redactSystemEvent(before) : before;
    if (after === before) continue;
    Object.assign(event, JSON.parse(after) as SystemEvent);
    changed++;
  }
  return changed;
}

/** Deletes what retention lets go of. Returns how many records went or were changed. */
export function sweep(data: Data, now: Ms, keep: Retention): number {
  const ended = (before: Ms) => (record: { createdAt: Ms; endedAt?: Ms }) =>
    record.createdAt < before && record.endedAt !== undefined && record.endedAt < before;
  const unfinished = new Set([...data.runs.values()].flatMap((run) => (run.endedAt === undefined ? [run.eventId] : [])));
  const sessionAge: Partial<Record<string, Ms>> = { hook: keep.hookSessions, api: keep.apiSessions };
  const isUnused = ({ ref, lastUsedAt }: { ref: { origin: string }; lastUsedAt: Ms }): boolean =>
    lastUsedAt < now - (sessionAge[ref.origin] ?? Infinity);
  return (
    dropBodies(data, now - keep.bodies, unfinished, keep.bodies === 0) +
    (keep.bodies === 0 ? redactUsed(data) : 0) +
    deleteAll(data.events, ({ id, receivedAt }) => receivedAt < now - keep.events && !unfinished.has(id)) +
    deleteAll(data.runs, ended(now - keep.runs)) +
    deleteAll(data.systemEvents, ({ at, state }) => at < now - keep.events && state !== "queued") +
    deleteAll(data.deliveries, ended(now - keep.deliveries)) +
    deleteAll(data.sessions, (session, id) => isUnused(session) && (data.turns.delete(id), true)) +
    deleteAll(data.keys, ({ expiresAt }) => expiresAt <= now)
  );
}
