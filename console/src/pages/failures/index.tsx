import type { FailureGroup, listFailures } from "../../../../src/operate/watch/failures.ts";
import type { Answer } from "../../api.ts";
import { useResource } from "../../resource.ts";
import { FilterSearch, FilterSelect } from "../../filters.tsx";
import { ListPage, select } from "../../listing.tsx";
import { href, place } from "../../router.ts";
import { Status, Time } from "../../ui/basic.tsx";
import { Spark } from "../../ui/chart.tsx";
import { number, plural, visibleText } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table, type Column } from "../../ui/table.tsx";
import { Detail } from "./detail.tsx";
import "./style.css";

const WINDOWS = [
  ["", "Last 7 days"],
  ["24h", "Last 24 hours"],
  ["1h", "Last hour"],
] as const;
const KINDS = [
  ["", "Any kind"],
  ["event", "Events"],
  ["run", "Runs"],
  ["delivery", "Deliveries"],
] as const;

const matches = (group: FailureGroup, words: string): boolean =>
  [
    group.title,
    group.message,
    ...group.senders.flatMap(({ name, mapping }) => [name, mapping]),
  ].some((text) => text?.toLowerCase().includes(words.toLowerCase()));

function Filters({ counts }: { counts: Answer<typeof listFailures>["counts"] | undefined }) {
  const count = (name: FailureGroup["status"], title: string): readonly [string, string] => [
    name,
    counts ? `${title} (${number(counts[name])})` : title,
  ];
  return (
    <>
      <FilterSearch name="search" label="Search" placeholder="Mapping, path, sender or error" />
      <FilterSelect
        name="status"
        label="Status"
        fallback="open"
        options={[count("open", "Open"), count("resolved", "Resolved"), ["all", "All"]]}
      />
      <FilterSelect name="kind" label="Kind" options={KINDS} />
      <FilterSelect name="since" label="Since" options={WINDOWS} />
    </>
  );
}

const COUNT: Column<FailureGroup> = {
  head: "Count",
  numeric: true,
  cell: (row) => number(row.count),
};
const LAST: Column<FailureGroup> = { head: "Last", cell: (row) => <Time iso={row.lastSeen} /> };
/** Columns that the detail shows as well. */
const MORE: readonly Column<FailureGroup>[] = [
  {
    head: "24 hours",
    minor: true,
    cell: (row) => (
      <Spark
        values={row.hours}
        label={`Failures in each of the last 24 hours: ${row.hours.join(", ")}`}
      />
    ),
  },
  { head: "Sender", minor: true, cell: (row) => visibleText(row.from ?? "–") },
  { head: "First", minor: true, cell: (row) => <Time iso={row.firstSeen} /> },
];
const STATUS: Column<FailureGroup> = {
  head: "Status",
  cell: (row) => (
    <Status
      word={row.isReopened && row.status === "open" ? "reopened" : row.status}
      tone={row.status === "resolved" ? "good" : "bad"}
    />
  ),
};

function Groups({ rows }: { rows: readonly FailureGroup[] }) {
  const { id, query } = place.value;
  const cause: Column<FailureGroup> = {
    head: "Cause",
    grow: true,
    cell: (row) => (
      <a href={href("failures", row.id, query)} title={visibleText(row.message ?? row.title)}>
        {visibleText(row.title)}
      </a>
    ),
  };
  return (
    <Table
      label="Groups of failures"
      rows={rows}
      rowId={(row) => row.id}
      selected={id}
      onSelect={(next) => select("failures", next)}
      columns={[cause, COUNT, LAST, ...(id === "" ? MORE : []), STATUS]}
    />
  );
}

const SHOWN_PATHS = 5;

/** The paths with the most failures of the groups that are listed, or the senders of what came by none. */
function countPaths(groups: readonly FailureGroup[]): [path: string, count: number][] {
  const counts = new Map<string, number>();
  for (const { path, sender, count } of groups.flatMap(({ senders }) => senders)) {
    const from = path ?? sender;
    if (from !== null) counts.set(from, (counts.get(from) ?? 0) + count);
  }
  return [...counts].toSorted(([, one], [, other]) => other - one);
}

function FailsMost({ groups }: { groups: readonly FailureGroup[] }) {
  const paths = countPaths(groups);
  if (paths.length === 0) return null;
  return (
    <p class="failures-note">
      Fails most often:{" "}
      {paths.slice(0, SHOWN_PATHS).map(([path, count], index) => (
        <span key={path}>
          {index === 0 ? "" : " · "}
          <a href={href("failures", "", { ...place.value.query, search: path })}>
            {visibleText(path)}
          </a>{" "}
          {number(count)}
        </span>
      ))}
      {paths.length > SHOWN_PATHS ? (
        <span class="quiet"> and {plural(paths.length - SHOWN_PATHS, "other path")}</span>
      ) : null}
    </p>
  );
}

const NONE: Readonly<Record<string, string>> = {
  open: "Nothing has failed that is not dealt with.",
  resolved: "No group is resolved.",
  all: "Nothing has failed.",
};

/** Failures by their cause, with what people do about them. */
export function Page() {
  const { query } = place.value;
  const { status = "open", kind = "", since = "", search = "" } = query;
  const parameters = new URLSearchParams({ limit: "500" });
  for (const [name, value] of Object.entries({
    status: status === "all" ? "" : status,
    kind,
    since,
  }))
    if (value !== "") parameters.set(name, value);
  const groups = useResource<Answer<typeof listFailures>>(`/failures?${parameters}`, {
    live: true,
  });
  return (
    <ListPage
      page="failures"
      title="Failures"
      filters={<Filters counts={groups.data?.counts} />}
      detail={(id) => <Detail key={id} id={id} onChange={groups.reload} />}
      list={
        <Loaded resource={groups}>
          {({ failures, isComplete }) => {
            const rows = failures.filter((group) => matches(group, search.trim()));
            return (
              <>
                {isComplete ? null : (
                  <p class="failures-note quiet">
                    Only the newest failures were looked at: the counts are too low.
                  </p>
                )}
                {rows.length === 0 ? (
                  <Empty command="rouse failures">
                    {search === "" ? NONE[status] : "No group matches the search."}
                  </Empty>
                ) : (
                  <>
                    <FailsMost groups={rows} />
                    <Groups rows={rows} />
                  </>
                )}
              </>
            );
          }}
        </Loaded>
      }
    />
  );
}
