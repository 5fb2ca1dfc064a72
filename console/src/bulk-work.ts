import { MOST, type BulkWork } from "./bulk-types.ts";

const ids = (previewed: readonly { id: string }[]): { ids: string[] } => ({
  ids: previewed.map(({ id }) => id),
});

const RETRY = {
  action: "Retry",
  done: "retried",
  chosen: ids,
} as const;

/** The filters of a list as words: `status failed, session main`. */
const describe = (query: Readonly<Record<string, string | undefined>>): string =>
  Object.entries(query)
    .flatMap(([name, value]) => (value ? [`${name} ${value.replaceAll("_", " ")}`] : []))
    .join(", ");

const RETRIED = ["failed", "timed_out", "cancelled"];
const RETRIED_KINDS = ["hook", "schedule"];
const given = (query: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(query).filter((pair): pair is [string, string] => Boolean(pair[1])),
  );

type Query = Readonly<Record<string, string | undefined>>;

/**
 * The body of a retry of many. If the page has a search, it names the rows that the search found, since the gateway does
 * not know the search; otherwise it has the filters. The list shows the newest first, and a retry takes the oldest first.
 * Undefined if no row can be retried.
 */
function chooseRetried(
  { q, ...filters }: Query,
  found: readonly { id: string; status: string }[],
  retried: readonly string[],
): Readonly<Record<string, unknown>> | undefined {
  if (q?.trim()) {
    const shown = found.filter((row) => retried.includes(row.status));
    return shown.length === 0 ? undefined : ids(shown.slice(0, MOST).toReversed());
  }
  return found.length === 0 ? undefined : given(filters);
}

/**
 * Retries the runs that the filters of the page leave; without a status those that failed or took too long. With a search in
 * the page, those of the rows that it has found. Undefined while there is none.
 */
export function retryRuns(
  { status, kind, session, event, since, until, endedSince, endedUntil, q }: Query,
  found: readonly { id: string; status: string }[],
): BulkWork | undefined {
  if (status && !RETRIED.includes(status)) return undefined;
  const only = kind === "all" ? undefined : kind;
  if (only && !RETRIED_KINDS.includes(only)) return undefined;
  const body = chooseRetried(
    {
      status: status || undefined,
      sessionKey: session,
      eventId: event,
      since,
      until,
      endedSince,
      endedUntil,
      // A retry knows no kinds: the rows that are shown are named.
      q: q || only,
    },
    found,
    status ? [status] : ["failed", "timed_out"],
  );
  if (!body) return undefined;
  const ended = { "ended since": endedSince, "ended before": endedUntil };
  const filters = describe({
    status: status || "failed or timed_out",
    kind: only,
    session,
    event,
    since,
    until,
    ...ended,
    "and the text": q,
  });
  return {
    ...RETRY,
    title: "Retry runs",
    what: `Runs with ${filters}. Each goes on after its last step.`,
    path: "/runs/retry",
    body,
    one: "run",
    many: "runs",
  };
}

const SENT_AGAIN = ["failed", "no_route", "unknown"];

/**
 * Retries the deliveries that the filters of the page leave; without a status those that failed. With a search in the page,
 * those of the rows that it has found. Undefined while there is none.
 */
export function retryDeliveries(
  { status, channel, since, q }: Query,
  found: readonly { id: string; status: string }[],
): BulkWork | undefined {
  if (status && !SENT_AGAIN.includes(status)) return undefined;
  const body = chooseRetried(
    { status: status || undefined, channel, since, q },
    found,
    status ? [status] : ["failed", "no_route"],
  );
  if (!body) return undefined;
  const filters = describe({ status: status || "failed", channel, since, "and the text": q });
  return {
    ...RETRY,
    title: "Retry deliveries",
    what: `Deliveries with ${filters}. Each goes on with the first message that was not sent.`,
    path: "/deliveries/retry",
    body,
    one: "delivery",
    many: "deliveries",
  };
}

/**
 * Replays the events that the filters leave with today's mappings; without a filter of the outcome those that failed. Events
 * that were accepted would do their work a second time: they are replayed only if the outcome asks for them. With a search in
 * the page, those of the rows that it has found.
 */
export function replayEvents(query: Query, found: readonly { id: string }[]): BulkWork {
  const { outcome, failed, path, mapping, since, until, search } = query;
  const asked = failed === "1" ? "failed" : outcome || "failed";
  const select = asked === "failed" || asked === "unmatched" ? asked : "all";
  const named = search ? found.slice(0, MOST) : null;
  const filters = describe({ outcome: asked, path, mapping, since, until, "and the text": search });
  return {
    title: "Replay events",
    what: `Events with ${filters}, with today's mappings.${named ? ` Of the ${named.length} that the list shows.` : ""}`,
    path: "/events/replay",
    body: named
      ? { select, ...ids(named) }
      : given({
          select,
          path,
          mapping,
          since,
          until,
          outcome: select === "all" ? asked : undefined,
        }),
    action: "Replay",
    done: "replayed",
    one: "event",
    many: "events",
    // Events that fail after the preview are not replayed.
    chosen: (previewed) => ({ select, ...ids(previewed) }),
  };
}
