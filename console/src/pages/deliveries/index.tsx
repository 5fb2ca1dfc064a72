import { useState } from "preact/hooks";
import type { DeliveryView } from "../../../../src/operate/records/views.ts";
import { retryDeliveries } from "../../bulk-work.ts";
import { BulkDialog } from "../../bulk-dialog.ts";
import type { BulkWork } from "../../bulk-types.ts";
import { Listing } from "../../listing.tsx";
import { searchById, usePaged } from "../../paged.ts";
import { filter, href, place } from "../../router.ts";
import { Button, Id, Status, Time } from "../../ui/basic.tsx";
import { Search, Select } from "../../ui/fields.tsx";
import { visibleText } from "../../ui/format.ts";
import { Empty } from "../../ui/states.tsx";
import type { Column } from "../../ui/table.tsx";
import { Detail } from "./detail.tsx";
import "./style.css";

const STATUSES = ["", "pending", "delivered", "failed", "no_route", "unknown"];
const AGES = [
  ["", "Any time"],
  ["1h", "Last hour"],
  ["1d", "Last day"],
  ["7d", "Last week"],
] as const;

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
    cell: ({ runId }) =>
      runId === "" ? <span class="quiet">–</span> : <Id id={runId} to={href("runs", runId)} />,
    minor: true,
  },
];

/** Whether a delivery has this text in what names it, or in its error. */
const hasText = ({ id, runId, channel, to, error }: DeliveryView, text: string): boolean =>
  [id, runId, channel, to, error?.code, error?.message].some((word) =>
    word?.toLowerCase().includes(text),
  );

function Filters() {
  const { status = "", since = "", channel, q = "" } = place.value.query;
  return (
    <>
      <Select
        label="Status"
        value={status}
        options={STATUSES}
        onChange={(chosen) => filter({ status: chosen })}
      />
      <Select
        label="Age"
        value={since}
        options={AGES}
        onChange={(chosen) => filter({ since: chosen })}
      />
      <Search
        label="Search deliveries"
        placeholder="Recipient, error, id"
        value={q}
        onSearch={(text) => filter({ q: text })}
      />
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
  const [retrying, setRetrying] = useState<BulkWork>();
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
  const work = retryDeliveries(place.value.query, paged.rows);
  const close = (): void => {
    setRetrying(undefined);
    paged.resource.reload();
  };
  return (
    <>
      <Listing
        page="deliveries"
        title="Deliveries"
        paged={paged}
        columns={COLUMNS}
        rowId={({ id }) => id}
        at={({ createdAt }) => createdAt}
        filters={<Filters />}
        actions={
          <Button
            disabled={!work}
            onClick={() => setRetrying(work)}
            {...(work ? {} : { title: "Nothing is shown that can be retried" })}
          >
            Retry many…
          </Button>
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
      {retrying ? <BulkDialog work={retrying} onClose={close} /> : null}
    </>
  );
}
