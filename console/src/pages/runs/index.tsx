import type { RunView } from "../../../../src/operate/records/views.ts";
import { FirstHook } from "../../first-hook.tsx";
import { FilterSearch, FilterSelect, TimeSpan } from "../../filters.tsx";
import { Listing } from "../../listing.tsx";
import { searchById, usePaged } from "../../paged.ts";
import { filter, place } from "../../router.ts";
import { Button, Status, Time } from "../../ui/basic.tsx";
import { elapsed, number, visibleText } from "../../ui/format.ts";
import { lazy } from "../../ui/lazy.tsx";
import { Empty } from "../../ui/states.tsx";
import type { Column } from "../../ui/table.tsx";
import { usd, WaitsFor } from "./words.tsx";
import "./style.css";

const RetryRuns = lazy(async () => (await import("../../bulk-button.tsx")).RetryRuns, 0);
const Detail = lazy(async () => (await import("./detail.tsx")).Detail);

const STATUSES = [
  "",
  ..."parked collecting queued running waiting succeeded failed timed_out cancelled".split(" "),
];
const KINDS = ["hook", "heartbeat", "schedule", "channel", "api"];
const COLUMNS: readonly Column<RunView>[] = [
  { head: "Created", cell: (run) => <Time iso={run.createdAt} /> },
  { head: "Status", cell: (run) => <Status word={run.status} /> },
  { head: "Name", cell: (run) => visibleText(run.name), grow: true },
  { head: "Reason", cell: (run) => <Reason run={run} />, grow: true },
  { head: "Session", cell: (run) => visibleText(run.sessionKey), minor: true },
  {
    head: "Delivery",
    cell: (run) => (run.delivery ? <Status word={run.delivery} /> : <span class="quiet">–</span>),
    minor: true,
  },
  {
    head: "Took",
    cell: (run) =>
      run.startedAt === null
        ? "–"
        : run.endedAt === null
          ? "…"
          : elapsed(run.startedAt, run.endedAt),
    numeric: true,
    minor: true,
  },
  {
    head: "Tokens",
    cell: (run) => (run.usage?.totalTokens === undefined ? "–" : number(run.usage.totalTokens)),
    numeric: true,
    minor: true,
  },
  {
    head: "Cost",
    cell: (run) => (run.usage?.costUsd === undefined ? "–" : usd(run.usage.costUsd)),
    numeric: true,
    minor: true,
  },
];

/** The error of a run, or what it waits for. */
function Reason({ run }: { run: RunView }) {
  if (run.error) return <span class="bad">{visibleText(run.error.message)}</span>;
  return run.waitsFor ? (
    <span class="warn">
      {"waits for "}
      <WaitsFor wait={run.waitsFor} />
    </span>
  ) : null;
}

/** True if a run has this text in what names it, or in its error. */
function hasText(run: RunView, text: string): boolean {
  const { id, name, sessionKey, agentId, mapping, model, error } = run;
  return [id, name, sessionKey, agentId, mapping, model, error?.code, error?.message].some((word) =>
    word?.toLowerCase().includes(text),
  );
}

function Filters() {
  const { query } = place.value;
  const { endedSince = "", endedUntil = "" } = query;
  const named = (["session", "event"] as const).filter((name) => query[name]);
  const isPlain = !["status", "endedSince", "endedUntil", ...named].some((name) => query[name]);
  return (
    <>
      <FilterSelect name="status" label="Status" options={STATUSES} />
      <FilterSelect
        name="kind"
        label="Kind"
        options={[
          ["", isPlain ? "All but heartbeats" : "Any kind"],
          ...(isPlain ? [["all", "Any kind"] as const] : []),
          ...KINDS,
        ]}
      />
      <TimeSpan label="Age" />
      <FilterSearch name="q" label="Search runs" placeholder="Name, session, error, id" />
      {named.map((name) => (
        <Button
          key={name}
          title={`Show the runs of every ${name}`}
          onClick={() => filter({ [name]: "" })}
        >
          {name} {visibleText(query[name] ?? "")} ×
        </Button>
      ))}
      {endedSince === "" && endedUntil === "" ? null : (
        <Button
          title="Show runs whenever they ended"
          onClick={() => filter({ endedSince: "", endedUntil: "" })}
        >
          ended{" "}
          {visibleText(
            [endedSince && `since ${endedSince}`, endedUntil && `before ${endedUntil}`]
              .filter(Boolean)
              .join(", "),
          )}{" "}
          ×
        </Button>
      )}
    </>
  );
}

export function Page() {
  const { status, kind, session, event, since, until, endedSince, endedUntil, q } =
    place.value.query;
  const text = q?.trim().toLowerCase() ?? "";
  const paged = usePaged<RunView>(
    "/runs",
    {
      status,
      kind,
      sessionKey: session,
      eventId: event,
      since,
      until,
      endedSince,
      endedUntil,
      ...searchById("run", text),
    },
    {
      member: "runs",
      rowId: ({ id }) => id,
      matches: text === "" ? undefined : (run) => hasText(run, text),
    },
  );
  const isFiltered = [status, kind, session, event, since, until, endedSince, endedUntil, q].some(
    Boolean,
  );
  return (
    <Listing
      page="runs"
      title="Runs"
      paged={paged}
      columns={COLUMNS}
      at={({ createdAt }) => createdAt}
      filters={<Filters />}
      actions={
        <RetryRuns query={place.value.query} rows={paged.rows} onClose={paged.resource.reload} />
      }
      detail={(id) => <Detail key={id} id={id} />}
      empty={
        isFiltered ? (
          <Empty>No run like that.</Empty>
        ) : (
          <FirstHook>No run yet. A hook that starts an agent makes one.</FirstHook>
        )
      }
    />
  );
}
