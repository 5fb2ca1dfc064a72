import "./style.css";
import { FilterCheck, FilterSearch, FilterSelect, TimeSpan } from "../../filters.tsx";
import { FirstHook } from "../../first-hook.tsx";
import { Listing } from "../../listing.tsx";
import { usePaged } from "../../paged.ts";
import { go, href, place } from "../../router.ts";
import { Button } from "../../ui/basic.tsx";
import { lazy } from "../../ui/lazy.tsx";
import { Empty } from "../../ui/states.tsx";
import { eventColumns } from "./columns.tsx";
import { OUTCOMES, PathAndMapping } from "./filters.tsx";
import type { EventRow } from "./types.ts";

const ReplayEvents = lazy(async () => (await import("../../bulk-button.tsx")).ReplayEvents, 0);
/** The detail is as long as the list, and is loaded when the first event is opened. */
const Detail = lazy(async () => (await import("./detail.tsx")).Detail);

const FILTERS = ["outcome", "path", "mapping", "failed", "since", "until", "search"] as const;

const Filters = () => (
  <>
    <FilterSearch name="search" label="Search events" placeholder="Words or field:value" />
    <FilterSelect name="outcome" label="Outcome" options={["", ...OUTCOMES]} />
    <PathAndMapping />
    <TimeSpan label="Since" />
    <FilterCheck name="failed" label="With a failed run" />
  </>
);

/** Events by their filters, and beside them why one had its outcome. */
export function Page() {
  const { query } = place.value;
  const asked = Object.fromEntries(FILTERS.map((name) => [name, query[name]]));
  const paged = usePaged<EventRow>("/events", asked, { member: "events", rowId: ({ id }) => id });
  const { reload } = paged.resource;
  return (
    <Listing
      page="events"
      title="Events"
      paged={paged}
      columns={eventColumns({ link: (id) => href("events", id, query) })}
      at={({ receivedAt }) => receivedAt}
      filters={<Filters />}
      actions={<ReplayEvents query={query} rows={paged.rows} onClose={reload} />}
      detail={(id) => <Detail key={id} id={id} onChange={reload} />}
      empty={
        Object.values(asked).some(Boolean) ? (
          <Empty>
            No event matches these filters.{" "}
            <Button onClick={() => go(href("events"))}>Clear the filters</Button>
          </Empty>
        ) : (
          <FirstHook>No event has come in yet. This line sends the first one.</FirstHook>
        )
      }
    />
  );
}
