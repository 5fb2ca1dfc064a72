import type { EventRow } from "./types.ts";

/** The name that runs have whose mapping gives none: it says nothing. */
const NO_NAME = "Hook";

/** What became of an event, in a few words: why it was not accepted, or the names of its work. */
export function describe(row: EventRow): string {
  const { reason, actions, handled, nearest, outcome } = row;
  const done = handled ? ` (${handled.as})` : "";
  if (outcome === "unmatched" && nearest)
    return `${nearest.condition} of ${nearest.mapping} does not hold${done}`;
  if (reason !== null) return `${reason}${done}`;
  const names = actions.map(({ kind, name, mapping }) =>
    name !== null && name !== NO_NAME ? name : (mapping ?? kind),
  );
  if (names.every((name) => name === row.mapping))
    return names.length > 1 ? `${names.length} runs` : "";
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count === 1 ? name : `${count} × ${name}`)).join(", ");
}
