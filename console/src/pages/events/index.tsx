import "./style.css";
import { FirstHook } from "../../first-hook.tsx";
import { filter, go, href, place } from "../../router.ts";
import { TimeSpan } from "../../time-span.tsx";
import { Button, Time } from "../../ui/basic.tsx";
import { Search, Select } from "../../ui/fields.tsx";
import { plural } from "../../ui/format.ts";
import { useKeys } from "../../ui/keys.ts";
import { lazy } from "../../ui/lazy.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { Split } from "../../ui/split.tsx";
import { Empty, Failed, Skeleton } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { eventColumns } from "./columns.tsx";
import { OUTCOMES, PathAndMapping } from "./filters.tsx";
import { useEventPages, type EventPages } from "./pages.ts";
import { useState } from "preact/hooks";
import { replayEvents } from "../../bulk-work.ts";
import { BulkDialog } from "../../bulk-dialog.ts";

interface ReplayManyProps {
  query: Readonly<Record<string, string | undefined>>;
  /** The rows of the list; undefined until they are there. */
  rows: readonly { id: string }[] | undefined;
  onClose(): void;
}

/** Replays the events that the filters of a list leave, after a preview of what would become of each. */
function ReplayMany({ query, rows, onClose }: ReplayManyProps) {
  const [work, setWork] = useState<ReturnType<typeof replayEvents> | null>(null);
  const close = (): void => {
    setWork(null);
    onClose();
  };
  return (
    <>
      <Button
        disabled={!rows?.length}
        title="Replay the events of these filters"
        onClick={() => setWork(replayEvents(query, rows ?? []))}
      >
        Replay many…
      </Button>
      {work ? <BulkDialog work={work} onClose={close} /> : null}
    </>
  );
}

/** What explains an event is as long as the list, and is loaded when the first one is opened. */
const Detail = lazy(async () => (await import("./detail.tsx")).Detail);

const SINCE = [
  ["", "Any time"],
  ["1h", "Last hour"],
  ["1d", "Last day"],
  ["7d", "Last 7 days"],
] as const;
const FILTERS = [
  "outcome",
  "path",
  "mapping",
  "failed",
  "since",
  "until",
  "search",
  "bookmarked",
] as const;

function Filters() {
  const { query } = place.value;
  return (
    <>
      <Search
        label="Search events"
        placeholder="Words or field:value"
        value={query["search"] ?? ""}
        onSearch={(search) => filter({ search })}
      />
      <Select
        label="Outcome"
        value={query["outcome"] ?? ""}
        options={["", ...OUTCOMES]}
        onChange={(outcome) => filter({ outcome })}
      />
      <PathAndMapping />
      <TimeSpan label="Since" ages={SINCE} />
      <label class="check">
        <input
          type="checkbox"
          checked={query["failed"] === "1"}
          onChange={({ currentTarget }) =>
            filter({ failed: currentTarget.checked ? "1" : undefined })
          }
        />
        With a failed run
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={query["bookmarked"] === "1"}
          onChange={({ currentTarget }) =>
            filter({ bookmarked: currentTarget.checked ? "1" : undefined })
          }
        />
        Bookmarked
      </label>
    </>
  );
}

/** How far a search has looked so far, and the way further. */
function Reach({ pages }: { pages: EventPages }) {
  const { searchedTo, hasMore, looked, rows = [] } = pages;
  if (searchedTo === null && looked === 0) return null;
  const to = searchedTo ?? (hasMore ? rows.at(-1)?.receivedAt : undefined);
  return (
    <p class="events-reach" role="status">
      <span>
        Looked{looked > 0 ? ` at ${hasMore ? "" : "all "}${plural(looked, "event")}` : ""}
        {to === undefined ? null : (
          <>
            {" back to "}
            <Time iso={to} />
          </>
        )}
        .
      </span>
      {searchedTo === null ? null : (
        <Button onClick={pages.loadMore} busy={pages.loading}>
          Look further
        </Button>
      )}
    </p>
  );
}

function List({ pages, filtered }: { pages: EventPages; filtered: boolean }) {
  const { rows, error, loading } = pages;
  const { id, query } = place.value;
  if (rows === undefined)
    return error ? (
      <Failed error={error} retry={pages.reload} />
    ) : loading ? (
      <Skeleton lines={12} />
    ) : null;
  if (rows.length === 0 && pages.searchedTo === null)
    return filtered ? (
      <>
        <Empty>
          No event matches these filters.{" "}
          <Button onClick={() => go(href("events"))}>Clear the filters</Button>
        </Empty>
        <Reach pages={pages} />
      </>
    ) : (
      <FirstHook>No event has come in yet. This line sends the first one.</FirstHook>
    );
  const open = (next: string): void => go(href("events", next, query), { replace: id !== "" });
  return (
    <>
      {error && error.code !== "unreachable" && error.code !== "signed_out" ? (
        <Failed error={error} retry={pages.reload} />
      ) : null}
      {rows.length === 0 ? null : (
        <Table
          label="Events"
          rows={rows}
          rowId={(row) => row.id}
          columns={eventColumns({ link: (one) => href("events", one, query) })}
          selected={id}
          onSelect={open}
          onEnd={() => pages.searchedTo === null && pages.loadMore()}
        />
      )}
      <Reach pages={pages} />
    </>
  );
}

export function Page() {
  const { id, query } = place.value;
  const asked = new URLSearchParams(
    FILTERS.flatMap((name) => (query[name] ? [[name, query[name]]] : [])),
  );
  const pages = useEventPages(asked.toString());
  const close = (): void => go(href("events", "", query));
  useKeys(id === "" ? {} : { Escape: close });
  return (
    <>
      <PageHead
        title="Events"
        filters={<Filters />}
        actions={<ReplayMany query={query} rows={pages.rows} onClose={pages.reload} />}
      />
      <Split
        name="events"
        list={<List pages={pages} filtered={asked.size > 0} />}
        detail={id === "" ? null : <Detail key={id} id={id} onChange={pages.reload} />}
        onClose={close}
      />
    </>
  );
}
