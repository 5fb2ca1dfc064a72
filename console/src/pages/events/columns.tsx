import { useEffect, useState } from "preact/hooks";
import { Id, Status, Time } from "../../ui/basic.tsx";
import { clockTime, visibleText } from "../../ui/format.ts";
import type { Column } from "../../ui/table.tsx";
import type { EventRow } from "./types.ts";

/** The name that runs have whose mapping gives none: it says nothing. */
const NO_NAME = "Hook";

/** What became of an event, in a few words: why it was not accepted, or the names of its work. */
export function describe(row: EventRow): string {
  const { reason, actions, handled } = row;
  const done = handled ? ` (${handled.as})` : "";
  if (reason !== null) return `${reason}${done}`;
  const names = actions.map(({ kind, name, mapping }) => (name !== null && name !== NO_NAME ? name : (mapping ?? kind)));
  if (names.every((name) => name === row.mapping)) return names.length > 1 ? `${names.length} runs` : "";
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count === 1 ? name : `${count} × ${name}`)).join(", ");
}

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
