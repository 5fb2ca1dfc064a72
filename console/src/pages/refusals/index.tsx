import type { listDenials } from "../../../../src/operate/watch/system.ts";
import type { Answer } from "../../api.ts";
import { FilterSearch, FilterSelect } from "../../filters.tsx";
import { useResource } from "../../resource.ts";
import { filter, place } from "../../router.ts";
import { Section, Time } from "../../ui/basic.tsx";
import { number, plural, visibleText } from "../../ui/format.ts";
import { PageHead } from "../../ui/page-head.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";

type Refusals = Answer<typeof listDenials>;
type Refusal = Refusals["refusals"][number];

/** The most that the gateway keeps. */
const LIMIT = 1000;
const SHOWN_SENDERS = 5;

const matches = (row: Refusal, words: string): boolean =>
  [row.address, row.path, row.reason].some((text) =>
    text.toLowerCase().includes(words.toLowerCase()),
  );

interface Sender {
  address: string;
  count: number;
  reasons: string;
  paths: string;
  last: string;
}

/** Counts the refusals of each address, with their reasons; most often first. */
function countSenders(rows: readonly Refusal[]): Sender[] {
  const senders = Map.groupBy(rows, ({ address }) => address);
  return [...senders]
    .map(([address, those]) => ({
      address,
      count: those.length,
      reasons: [...new Set(those.map(({ reason }) => reason))].join(", "),
      paths: [...new Set(those.map(({ path }) => path))].join(", "),
      last: those[0]?.at ?? "",
    }))
    .toSorted((one, other) => other.count - one.count);
}

function Senders({ rows }: { rows: readonly Refusal[] }) {
  const senders = countSenders(rows);
  return (
    <Section title="Refused most often">
      <Table
        label="Senders that are refused most often"
        rows={senders.slice(0, SHOWN_SENDERS)}
        rowId={(row) => row.address}
        columns={[
          {
            head: "Sender",
            cell: (row) => (
              <button type="button" class="link" onClick={() => filter({ search: row.address })}>
                {visibleText(row.address)}
              </button>
            ),
          },
          { head: "Refused", numeric: true, cell: (row) => number(row.count) },
          { head: "Last", cell: (row) => <Time iso={row.last} /> },
          { head: "Reasons", cell: (row) => <code>{visibleText(row.reasons)}</code> },
          { head: "Paths", grow: true, cell: (row) => visibleText(row.paths) },
        ]}
      />
      {senders.length > SHOWN_SENDERS ? (
        <p class="quiet">And {plural(senders.length - SHOWN_SENDERS, "other sender")}.</p>
      ) : null}
    </Section>
  );
}

function List({ rows }: { rows: readonly Refusal[] }) {
  return (
    <Section title="Requests">
      <Table
        label="Refused requests"
        rows={rows}
        rowId={(row) => `${row.at} ${row.address} ${row.path} ${row.reason}`}
        columns={[
          { head: "When", cell: (row) => <Time iso={row.at} /> },
          { head: "Address", lead: true, cell: (row) => visibleText(row.address) },
          { head: "Reason", cell: (row) => <code>{visibleText(row.reason)}</code> },
          {
            head: "Credential",
            minor: true,
            cell: (row) => (row.authenticated ? "right" : "missing or wrong"),
          },
          { head: "Path", grow: true, cell: (row) => visibleText(row.path) },
        ]}
      />
    </Section>
  );
}

/** Requests that were refused before they became events, and which sender fails most. */
export function Page() {
  const { search = "", reason = "" } = place.value.query;
  const refusals = useResource<Refusals>(`/refusals?limit=${LIMIT}`, { live: true });
  const reasons = [
    ...new Set([...(refusals.data?.refusals ?? []).map((row) => row.reason), reason]),
  ].filter((one) => one !== "");
  return (
    <>
      <PageHead
        title="Refused"
        filters={
          <>
            <FilterSearch name="search" label="Search" placeholder="Address, path or reason" />
            <FilterSelect name="reason" label="Reason" options={["", ...reasons.toSorted()]} />
          </>
        }
      />
      <div class="page-body">
        <Loaded resource={refusals}>
          {({ refusals: all }) => {
            if (all.length === 0)
              return (
                <Empty command="rouse events --refused">
                  No request was rejected since the gateway started.
                </Empty>
              );
            const rows = all.filter(
              (row) => matches(row, search.trim()) && (reason === "" || row.reason === reason),
            );
            if (rows.length === 0)
              return (
                <Empty>The filters match none of {plural(all.length, "refused request")}.</Empty>
              );
            return (
              <>
                <Senders rows={rows} />
                <List rows={rows} />
              </>
            );
          }}
        </Loaded>
      </div>
    </>
  );
}
