import { FilterSelect } from "../../filters.tsx";
import { useResource } from "../../resource.ts";
import { href, place } from "../../router.ts";
import { Section, Time } from "../../ui/basic.tsx";
import { TimeBars } from "../../ui/chart.tsx";
import { duration, number, plural } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";
import { Table, type Column } from "../../ui/table.tsx";
import { Figure } from "./figure.tsx";
import type { ActivityView } from "./types.ts";

const WINDOWS = [
  ["1h", "Last hour"],
  ["6h", "Last 6 hours"],
  ["24h", "Last 24 hours"],
  ["7d", "Last 7 days"],
] as const;

/** Outcomes in the order in which they are stacked, those that need a look at the top. */
const COLORS = [
  ["accepted", "--plot-good"],
  ["skipped", "--plot-quiet"],
  ["duplicate", "--plot-2"],
  ["unmatched", "--plot-warn"],
  ["rejected", "--plot-4"],
  ["failed", "--plot-bad"],
] as const;

interface LatencyRow {
  name: string;
  times: ActivityView["latencies"]["answers"];
  to: string;
}

const toFigure = (head: string, show: (row: LatencyRow) => string): Column<LatencyRow> => ({
  head,
  numeric: true,
  cell: (row) => <Figure to={row.to}>{show(row)}</Figure>,
});

/** A column of a percentile; a dash if nothing was measured since the start. */
const toPercentile = (name: "p50" | "p95" | "p99"): Column<LatencyRow> =>
  toFigure(name, ({ times }) => (times ? duration(times[name] * 1000) : "–"));

const Latencies = ({ latencies }: Pick<ActivityView, "latencies">) => (
  <Table
    label="Latencies"
    rows={[
      { name: "Answer to a hook", times: latencies.answers, to: href("events") },
      { name: "Wait for a worker", times: latencies.waits, to: href("runs") },
      { name: "Run", times: latencies.runs, to: href("runs") },
    ]}
    rowId={({ name }) => name}
    columns={[
      { head: "Latency", cell: ({ name, to }) => <a href={to}>{name}</a> },
      toPercentile("p50"),
      toPercentile("p95"),
      toPercentile("p99"),
      toFigure("of", ({ times }) => number(times?.count ?? 0)),
    ]}
  />
);

interface WaitLine {
  to: string;
  count: string;
  why: string;
  until: string | null;
}

const oldest = (seconds: number): string =>
  seconds > 0 ? `, the oldest for ${duration(seconds * 1000)}` : "";

/** Lists what waits and for what, each with the page that has it. */
function toLines({
  runs,
  deliveries,
  approvals,
  collecting,
  parked,
}: ActivityView["waiting"]): WaitLine[] {
  const held = parked.by.map(({ text, count, until }) => ({
    to: href("runs", "", { status: "parked" }),
    count: plural(count, "run"),
    why: `waiting for ${text}`,
    until,
  }));
  const others: readonly (readonly [number, Omit<WaitLine, "until">])[] = [
    [
      runs.count,
      {
        to: href("runs", "", { status: "queued" }),
        count: plural(runs.count, "turn"),
        why: `queued${oldest(runs.oldestSeconds)}`,
      },
    ],
    [
      deliveries.count,
      {
        to: href("deliveries", "", { status: "pending" }),
        count: plural(deliveries.count, "delivery", "deliveries"),
        why: `waiting to be sent${oldest(deliveries.oldestSeconds)}`,
      },
    ],
    [
      approvals,
      {
        to: href("approvals"),
        count: plural(approvals, "call"),
        why: "waiting for a person's decision",
      },
    ],
    [
      collecting,
      {
        to: href("runs", "", { status: "collecting" }),
        count: plural(collecting, "run"),
        why: "collecting further events",
      },
    ],
  ];
  return [
    ...held,
    ...others.flatMap(([count, line]) => (count > 0 ? [{ ...line, until: null }] : [])),
  ];
}

function Waiting({ waiting }: Pick<ActivityView, "waiting">) {
  const lines = toLines(waiting);
  if (lines.length === 0) return <p class="good">✓ Nothing waits.</p>;
  return (
    <ul class="overview-list">
      {lines.map(({ to, count, why, until }) => (
        <li key={`${to}${why}`}>
          <a href={to}>
            {count} {why}
            {until ? (
              <>
                {" "}
                · next try <Time iso={until} planned />
              </>
            ) : null}
          </a>
        </li>
      ))}
    </ul>
  );
}

/** Hooks a minute by outcome, latencies, and what waits for what. */
export function Hooks() {
  const since = place.value.query["since"] ?? "1h";
  // A long time takes half a second to count: it is not asked for again and again.
  const activity = useResource<ActivityView>(`/activity?since=${encodeURIComponent(since)}`, {
    live: since === "1h",
  });
  return (
    <Loaded resource={activity}>
      {({ hooks, latencies, waiting }) => (
        <div class="overview-hooks">
          <Section
            title="Hooks"
            actions={<FilterSelect name="since" label="Time" fallback="1h" options={WINDOWS} />}
          >
            <TimeBars
              isTall
              label={`Hooks a minute by outcome: ${number(hooks.total)} in all`}
              times={hooks.times}
              to={href("events", "", { since: hooks.times[0] })}
              barTo={(index) =>
                href("events", "", { since: hooks.times[index], until: hooks.times[index + 1] })
              }
              series={COLORS.filter(
                ([name]) => name === "accepted" || hooks.outcomes[name].some((count) => count > 0),
              ).map(([name, color]) => ({
                name,
                color,
                values: hooks.outcomes[name].map((count) => (count * 60) / hooks.stepSeconds),
              }))}
            />
            {hooks.isComplete ? null : <p class="quiet">Only the newest hooks are counted.</p>}
          </Section>
          <div>
            <Section title="Waiting">
              <Waiting waiting={waiting} />
            </Section>
            <Section title="Latency" label="Latency">
              <Latencies latencies={latencies} />
            </Section>
          </div>
        </div>
      )}
    </Loaded>
  );
}
