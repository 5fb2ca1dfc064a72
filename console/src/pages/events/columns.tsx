import { Id, Status, Time } from "../../ui/basic.tsx";
import { Prose } from "../../ui/prose.tsx";
import { clockTime, visibleText } from "../../ui/format.ts";
import type { Column } from "../../ui/table.tsx";
import type { EventRow } from "./types.ts";

/** The mapping that took an event, or its path. A mapping is usually named after its path, which is then not said twice. */
function Name({ row: { mapping, path } }: { row: EventRow }) {
  if (mapping === null || mapping === path || mapping.startsWith(`${path}.`))
    return <>{visibleText(mapping ?? path)}</>;
  return (
    <>
      {visibleText(mapping)} <span class="quiet">{visibleText(path)}</span>
    </>
  );
}

/** The columns of every list of events. `exact`: the time of the day in place of the age, for lists that move. */
export const eventColumns = ({
  link,
  exact = false,
}: {
  link(id: string): string;
  exact?: boolean;
}): Column<EventRow>[] => [
  {
    head: "When",
    cell: ({ receivedAt }) =>
      exact ? (
        <time dateTime={receivedAt} class="mono">
          {clockTime(receivedAt)}
        </time>
      ) : (
        <Time iso={receivedAt} />
      ),
  },
  { head: "Outcome", cell: ({ outcome }) => <Status word={outcome} /> },
  { head: "Event", lead: true, cell: (row) => <Name row={row} /> },
  {
    head: "What happened",
    grow: true,
    cell: (row) => (
      <span class="quiet">
        <Prose text={row.text} />
      </span>
    ),
  },
  { head: "Id", cell: ({ id }) => <Id id={id} to={link(id)} />, minor: true },
];
