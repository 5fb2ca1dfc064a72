import { useEffect, useState } from "preact/hooks";
import { Id, Status, Time } from "../../ui/basic.tsx";
import { clockTime, visibleText } from "../../ui/format.ts";
import type { Column } from "../../ui/table.tsx";
import { describe } from "./describe.ts";
import type { EventRow } from "./types.ts";

/** What a row is: its path, with the mapping that took it. */
function What({ row }: { row: EventRow }) {
  return (
    <span class="events-what">
      <b>{visibleText(row.mapping ?? row.path)}</b>
      {row.mapping === null || row.mapping === row.path ? null : <span class="quiet"> {visibleText(row.path)}</span>}
      <span class="events-why">{visibleText(describe(row))}</span>
    </span>
  );
}

const NARROW = matchMedia("(max-width: 46rem)");

/** The height of a row of events, which has two lines where the window is narrow. */
export function useEventRowHeight(): number {
  const [narrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const listen = (): void => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", listen);
    return () => NARROW.removeEventListener("change", listen);
  }, []);
  return narrow ? 52 : 34;
}

/** The columns of every list of events. `exact`: the time of the day in place of the age, for lists that move. */
export const eventColumns = ({ link, exact = false }: { link(id: string): string; exact?: boolean }): Column<EventRow>[] => [
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
  { head: "Event", grow: true, cell: (row) => <What row={row} /> },
  { head: "Id", cell: ({ id }) => <Id id={id} to={link(id)} />, minor: true },
];
