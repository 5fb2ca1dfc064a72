import { useState } from "preact/hooks";
import type { RunView } from "../../../../src/admin/views.ts";
import { retryRuns } from "../../bulk-work.ts";
import { BulkDialog } from "../../bulk.tsx";
import { Listing } from "../../listing.tsx";
import { usePaged } from "../../paged.ts";
import { filter, place } from "../../router.ts";
import { Button, Status, Time } from "../../ui/basic.tsx";
import { elapsed, number, visibleText } from "../../ui/format.ts";
import { Search, Select } from "../../ui/fields.tsx";
import { lazy } from "../../ui/lazy.tsx";
import { Empty } from "../../ui/states.tsx";
import type { Column } from "../../ui/table.tsx";
import { usd, WaitsFor } from "./words.tsx";
import "./style.css";

const Detail = lazy(async () => (await import("./detail.tsx")).Detail);

const STATUSES = ["", ..."parked collecting queued running waiting succeeded failed timed_out cancelled".split(" ")];
const AGES = [
  ["", "Any time"],
  ["1h", "Last hour"],
  ["1d", "Last day"],
  ["7d", "Last week"],
] as const;

const COLUMNS: readonly Column<RunView>[] = [
  { head: "Created", cell: (run) => <Time iso={run.createdAt} /> },
  { head: "Status", cell: (run) => <Status word={run.status} /> },
  { head: "Name", cell: (run) => <Name run={run} />, grow: true },
  { head: "Session", cell: (run) => visibleText(run.sessionKey), minor: true },
  { head: "Delivery", cell: (run) => (run.delivery ? <Status word={run.delivery} /> : <span class="quiet">–</span>), minor: true },
  {
    head: "Took",
    cell: (run) => (run.startedAt === null ? "–" : run.endedAt === null ? "…" : elapsed(run.startedAt, run.endedAt)),
    numeric: true,
    minor: true,
  },
  {
    head: "Tokens",
    cell: (run) => (run.usage?.totalTokens === undefined ? "–" : number(run.usage.totalTokens)),
    numeric: true,
    minor: true,
  },
  { head: "Cost", cell: (run) => (run.usage?.costUsd === undefined ? "–" : usd(run.usage.costUsd)), numeric: true, minor: true },
];

/** The name of a run, and behind it its error or what it waits for. */
function Name({ run }: { run: RunView }) {
  return (
    <>
      {visibleText(run.name)}
      {run.error ? <span class="bad"> · {visibleText(run.error.message)}</span> : null}
      {run.waitsFor ? (
        <span class="warn">
          {" · waits for "}
          <WaitsFor run={run} />
        </span>
      ) : null}
    </>
  );
}

/** Whether a run has this text in what names it, or in its error. */
function hasText(run: RunView, text: string): boolean {
  const { id, name, sessionKey, agentId, mapping, model, error } = run;
  return [id, name, sessionKey, agentId, mapping, model, error?.code, error?.message].some((word) => word?.toLowerCase().includes(text));
}

function Filters() {
  const { query } = place.value;
  const named = (["session", "event"] as const).filter((name) => query[name]);
  return (
    <>
      <Select label="Status" value={query["status"] ?? ""} options={STATUSES} onChange={(status) => filter({ status })} />
      <Select label="Age" value={query["since"] ?? ""} options={AGES} onChange={(since) => filter({ since })} />
      <Search label="Search runs" placeholder="Name, session, error, id" value={query["q"] ?? ""} onSearch={(q) => filter({ q })} />
      {named.map((name) => (
        <Button key={name} title={`Show the runs of every ${name}`} onClick={() => filter({ [name]: "" })}>
          {name} {visibleText(query[name] ?? "")} ×
        </Button>
      ))}
    </>
  );
}

export function Page() {
  const { status, session, event, since, q } = place.value.query;
  const [retrying, setRetrying] = useState(false);
  const text = q?.trim().toLowerCase() ?? "";
  const paged = usePaged<RunView>(
    "/runs",
    { status, sessionKey: session, eventId: event, since },
    { member: "runs", rowId: ({ id }) => id, matches: text === "" ? undefined : (run) => hasText(run, text) },
  );
  const isFiltered = [status, session, event, since, q].some(Boolean);
  return (
    <>
      <Listing
        page="runs"
        title="Runs"
        paged={paged}
        columns={COLUMNS}
        rowId={({ id }) => id}
        at={({ createdAt }) => createdAt}
        filters={<Filters />}
        actions={<Button onClick={() => setRetrying(true)}>Retry many…</Button>}
        detail={(id) => <Detail key={id} id={id} />}
        empty={
          isFiltered ? (
            <Empty>No run like that.</Empty>
          ) : (
            <Empty command={"rouse hooks send agent --payload hello.json"}>No run yet. A hook that starts an agent makes one:</Empty>
          )
        }
      />
      {retrying ? (
        <BulkDialog
          work={retryRuns(place.value.query, paged.rows)}
          onClose={() => {
            setRetrying(false);
            paged.resource.reload();
          }}
        />
      ) : null}
    </>
  );
}
