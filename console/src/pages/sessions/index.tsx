import type { SessionView } from "../../../../src/operate/records/views.ts";
import { FilterSearch, FilterSelect } from "../../filters.tsx";
import { Listing } from "../../listing.tsx";
import { usePaged } from "../../paged.ts";
import { place } from "../../router.ts";
import { sessionName } from "../../session-name.ts";
import { Time } from "../../ui/basic.tsx";
import { number, visibleText } from "../../ui/format.ts";
import { Empty } from "../../ui/states.tsx";
import type { Column } from "../../ui/table.tsx";
import { Detail } from "./detail.tsx";
import "./style.css";

const ORIGINS = ["", "main", "hook", "api", "channel", "schedule"];

const COLUMNS: readonly Column<SessionView>[] = [
  { head: "Last used", cell: ({ lastUsedAt }) => <Time iso={lastUsedAt} /> },
  { head: "Key", cell: ({ key }) => visibleText(key), grow: true },
  { head: "Agent", cell: ({ agentId }) => agentId },
  { head: "Origin", cell: ({ origin }) => origin, minor: true },
  { head: "Path", cell: ({ path }) => path ?? <span class="quiet">–</span>, minor: true },
  {
    head: "Credential",
    cell: ({ credential }) => credential ?? <span class="quiet">–</span>,
    minor: true,
  },
  { head: "Turns", cell: ({ turns }) => number(turns), numeric: true },
];

/** True if a session has this text in what names it. */
const hasText = ({ key, agentId, path, credential }: SessionView, text: string): boolean =>
  [key, agentId, path, credential].some((word) => word?.toLowerCase().includes(text));

export function Page() {
  const { origin = "", agent, since, q = "" } = place.value.query;
  const text = q.trim().toLowerCase();
  const paged = usePaged<SessionView>(
    "/sessions",
    { origin, agent, since },
    {
      member: "sessions",
      rowId: sessionName,
      matches: text === "" ? undefined : (session) => hasText(session, text),
    },
  );
  return (
    <Listing<SessionView>
      page="sessions"
      title="Sessions"
      paged={paged}
      columns={COLUMNS}
      at={({ lastUsedAt }) => lastUsedAt}
      filters={
        <>
          <FilterSelect name="origin" label="Origin" options={ORIGINS} />
          <FilterSearch name="q" label="Search sessions" placeholder="Key, agent, path" />
        </>
      }
      detail={(name) => <Detail key={name} name={name} changed={paged.resource.reload} />}
      empty={
        origin || text || since || agent ? (
          <Empty>No session like that.</Empty>
        ) : (
          <Empty command="rouse chat">
            No session yet. The first turn of a hook, a channel or a chat makes one:
          </Empty>
        )
      }
    />
  );
}
