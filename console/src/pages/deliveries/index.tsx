import type { DeliveryView } from "../../../../src/operate/records/views.ts";
import { FilterSearch, FilterSelect, TimeSpan } from "../../filters.tsx";
import { Listing } from "../../listing.tsx";
import { searchById, usePaged } from "../../paged.ts";
import { filter, place } from "../../router.ts";
import { Button, Status, Time } from "../../ui/basic.tsx";
import { visibleText } from "../../ui/format.ts";
import { lazy } from "../../ui/lazy.tsx";
import { Empty } from "../../ui/states.tsx";
import { toLink } from "../../ui/with-ids.tsx";
import type { Column } from "../../ui/table.tsx";
import { Detail } from "./detail.tsx";
import "./style.css";

const RetryDeliveries = lazy(
  async () => (await import("../../bulk-button.tsx")).RetryDeliveries,
  0,
);

const STATUSES = ["", "pending", "delivered", "failed", "no_route", "unknown"];
const COLUMNS: readonly Column<DeliveryView>[] = [
  { head: "Created", cell: ({ createdAt }) => <Time iso={createdAt} /> },
  { head: "Status", cell: ({ status }) => <Status word={status} /> },
  {
    head: "To",
    cell: ({ channel, to }) => (
      <>
        {channel} <span class="quiet">{visibleText(to ?? "")}</span>
      </>
    ),
    lead: true,
  },
  {
    head: "Error",
    cell: ({ error }) =>
      error ? (
        <span class="bad" title={error.message}>
          {visibleText(error.message)}
        </span>
      ) : null,
    grow: true,
  },
  {
    head: "Sent",
    cell: ({ sentChunks, chunks }) => `${sentChunks} of ${chunks}`,
    numeric: true,
    minor: true,
  },
  { head: "Tries", cell: ({ attempts }) => attempts, numeric: true, minor: true },
  {
    head: "Run",
    cell: ({ runId }) => toLink(runId) ?? <span class="quiet">–</span>,
    minor: true,
  },
];

/** True if a delivery has this text in what names it, or in its error. */
const hasText = ({ id, runId, channel, to, error }: DeliveryView, text: string): boolean =>
  [id, runId, channel, to, error?.code, error?.message].some((word) =>
    word?.toLowerCase().includes(text),
  );

function Filters() {
  const { channel } = place.value.query;
  return (
    <>
      <FilterSelect name="status" label="Status" options={STATUSES} />
      <TimeSpan label="Age" />
      <FilterSearch name="q" label="Search deliveries" placeholder="Recipient, error, id" />
      {channel ? (
        <Button
          title="Show the deliveries of every channel"
          onClick={() => filter({ channel: "" })}
        >
          channel {visibleText(channel)} ×
        </Button>
      ) : null}
    </>
  );
}

export function Page() {
  const { status, channel, since, q } = place.value.query;
  const text = q?.trim().toLowerCase() ?? "";
  const paged = usePaged<DeliveryView>(
    "/deliveries",
    { status, channel, since, ...searchById("dlv", text) },
    {
      member: "deliveries",
      rowId: ({ id }) => id,
      matches: text === "" ? undefined : (delivery) => hasText(delivery, text),
    },
  );
  return (
    <Listing
      page="deliveries"
      title="Deliveries"
      paged={paged}
      columns={COLUMNS}
      at={({ createdAt }) => createdAt}
      filters={<Filters />}
      actions={
        <RetryDeliveries
          query={place.value.query}
          rows={paged.rows}
          onClose={paged.resource.reload}
        />
      }
      detail={(id) => <Detail key={id} id={id} retried={paged.resource.reload} />}
      empty={
        [status, channel, since, q].some(Boolean) ? (
          <Empty>No delivery like that.</Empty>
        ) : (
          <Empty command="rouse channels">
            Nothing was delivered yet. Replies go to a channel that is configured:
          </Empty>
        )
      }
    />
  );
}
