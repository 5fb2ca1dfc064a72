import { useResource } from "../../resource.ts";
import { filter, href, place } from "../../router.ts";
import { Section, Time } from "../../ui/basic.tsx";
import { TimeBars } from "../../ui/chart.tsx";
import { Select } from "../../ui/fields.tsx";
import { duration, number, plural } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";
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

const milliseconds = (seconds: number): string => duration(seconds * 1000);

function Latencies({ latencies }: Pick<ActivityView, "latencies">) {
  const rows = [
    ["Answer to a hook", latencies.answers, href("events")],
    ["Wait for a worker", latencies.waits, href("runs")],
    ["Run", latencies.runs, href("runs")],
  ] as const;
  return (
    <div class="table">
      <table>
        <thead>
          <tr>
            <th scope="col">Latency</th>
            <th scope="col" class="number">
              p50
            </th>
            <th scope="col" class="number">
              p95
            </th>
            <th scope="col" class="number">
              p99
            </th>
            <th scope="col" class="number">
              of
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, times, to]) => (
            <tr key={name}>
              <td>
                <a href={to}>{name}</a>
              </td>
              {times ? (
                [times.p50, times.p95, times.p99].map((time, index) => (
                  <td key={index} class="number">
                    <Figure to={to}>{milliseconds(time)}</Figure>
                  </td>
                ))
              ) : (
                <td colSpan={3} class="quiet number">
                  none since the start
                </td>
              )}
              <td class="number quiet">
                <Figure to={to}>{number(times?.count ?? 0)}</Figure>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface WaitLine {
  to: string;
  count: string;
  why: string;
  until: string | null;
}

const oldest = (seconds: number): string =>
  seconds > 0 ? `, the oldest for ${duration(seconds * 1000)}` : "";

/** What waits and for what, each with the list of it. */
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
            actions={
              <Select
                label="Time"
                value={since}
                options={WINDOWS}
                onChange={(value) => filter({ since: value === "1h" ? undefined : value })}
              />
            }
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
