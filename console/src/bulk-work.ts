import type { ReplayLine } from "../../src/admin/bulk-replay.ts";
import type { RetryLine } from "../../src/admin/bulk-retry.ts";
import { MOST, type BulkResult, type BulkWork } from "./bulk.tsx";

const ids = (previewed: readonly { id: string }[]): { ids: string[] } => ({ ids: previewed.map(({ id }) => id) });

function readRetryTotal(line: RetryLine): { total: number; note: string | null } | undefined {
  if (line.type !== "total") return undefined;
  const { total, skipped } = line;
  return { total, note: skipped > 0 ? `${skipped} are left out: no hook has started them.` : null };
}

function readRetryResult(line: RetryLine): BulkResult | undefined {
  if (line.type !== "result") return undefined;
  const { id } = line;
  return line.ok
    ? { id, ok: true, status: line.status, text: line.summary }
    : { id, ok: false, status: line.failure.code, text: line.failure.message };
}

const RETRY = { action: "Retry", done: "retried", readTotal: readRetryTotal, readResult: readRetryResult, chosen: ids } as const;

/** The filters of a list as words: `status failed, session main`. */
const describe = (query: Readonly<Record<string, string | undefined>>): string =>
  Object.entries(query)
    .flatMap(([name, value]) => (value ? [`${name} ${value.replaceAll("_", " ")}`] : []))
    .join(", ");

const RETRIED = ["failed", "timed_out", "cancelled"];
const given = (query: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(Object.entries(query).filter((pair): pair is [string, string] => Boolean(pair[1])));

type Query = Readonly<Record<string, string | undefined>>;

/** The states that a retry of many takes: those of the filter, or the usual ones. */
const chooseStatus = (status: string | undefined, known: readonly string[]): string | undefined =>
  status !== undefined && known.includes(status) ? status : undefined;

/**
 * Retries the runs that the filters of the page leave; without a status those that failed or took too long. With a search in
 * the page, those of the rows that it has found.
 */
export function retryRuns(
  { status, session, event, since, q }: Query,
  found: readonly { id: string; status: string }[],
): BulkWork<RetryLine> {
  const known = chooseStatus(status, RETRIED);
  const filters = describe({ status: known ?? "failed or timed_out", session, event, since, "and the text": q });
  const shown = found.filter((run) => (known === undefined ? run.status === "failed" || run.status === "timed_out" : run.status === known));
  return {
    ...RETRY,
    title: "Retry runs",
    what: `Runs with ${filters}. Each goes on after its last step.`,
    path: "/runs/retry",
    // The list has the newest first; the runs of a session keep their order.
    body:
      q && shown.length > 0 ? ids(shown.slice(0, MOST).toReversed()) : given({ status: known, sessionKey: session, eventId: event, since }),
    one: "run",
    many: "runs",
  };
}

const SENT_AGAIN = ["failed", "no_route", "unknown"];

/** Retries the deliveries that the filters of the page leave; without a status those that failed. */
export function retryDeliveries({ status, channel, since }: Query): BulkWork<RetryLine> {
  const known = chooseStatus(status, SENT_AGAIN);
  return {
    ...RETRY,
    title: "Retry deliveries",
    what: `Deliveries with ${describe({ status: known ?? "failed", channel, since })}. Each goes on with the first message that was not sent.`,
    path: "/deliveries/retry",
    body: given({ status: known, channel, since }),
    one: "delivery",
    many: "deliveries",
  };
}

function readReplayed(line: ReplayLine): BulkResult | undefined {
  if (line.type !== "result") return undefined;
  if (!line.ok) return { id: line.eventId, ok: false, status: line.failure.code, text: line.failure.message };
  const { eventId, newEventId, outcome, mapping, reason, actions } = line.result;
  const work = actions.map(({ summary }) => summary).join("; ");
  const text = [mapping, reason, work, newEventId && `new event ${newEventId}`].filter(Boolean).join(" · ");
  return { id: eventId, ok: true, status: outcome, text };
}

/**
 * Replays the events that the filters leave with today's mappings; without a filter of the outcome those that failed. Events
 * that were accepted would do their work a second time: they are replayed only if the outcome asks for them. With a search in
 * the page, those of the rows that it has found.
 */
export function replayEvents(query: Query, found: readonly { id: string }[]): BulkWork<ReplayLine> {
  const { outcome, failed, path, mapping, since, search, bookmarked } = query;
  const asked = failed === "1" ? "failed" : outcome || "failed";
  const select = asked === "failed" || asked === "unmatched" ? asked : "all";
  const named = search || bookmarked ? found.slice(0, MOST) : null;
  const filters = describe({ outcome: asked, path, mapping, since, "and the text": search });
  return {
    title: "Replay events",
    what: `Events with ${filters}${bookmarked ? ", bookmarked" : ""}, with today's mappings.${named ? ` Of the ${named.length} that the list shows.` : ""}`,
    path: "/events/replay",
    body: named ? { select, ...ids(named) } : given({ select, path, mapping, since, outcome: select === "all" ? asked : undefined }),
    action: "Replay",
    done: "replayed",
    one: "event",
    many: "events",
    readTotal: (line) => (line.type === "total" ? { total: line.total, note: null } : undefined),
    readResult: readReplayed,
    // What fails after the preview is not part of it.
    chosen: (previewed) => ({ select, ...ids(previewed) }),
  };
}
