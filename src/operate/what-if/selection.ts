import { unknownId } from "../../vocabulary/unknown-id.ts";
import { readAll } from "../records/operation.ts";
import { RouseError } from "../../core/errors.ts";
import type { EventRecord, Reads } from "../../store/types.ts";

/** Events that are compared if nothing else is said. */
export const DEFAULT_LAST = 10_000;
/** Bodies are up to some MB: few are in memory at a time. */
const PAGE = 10;

/** A choice of recorded events. */
export interface Selection {
  /** Milliseconds since the epoch. */
  since?: number | undefined;
  /** At most so many, the newest. */
  last: number;
  /** These alone, by their ids or the beginnings of them. */
  events?: readonly string[] | undefined;
  path?: string | undefined;
}

type Reader = Reads;

async function findEvent(store: Reader, id: string): Promise<EventRecord> {
  const [found, more] = id.startsWith("evt_")
    ? await store.events.list({ idPrefix: id, limit: 2 })
    : [];
  if (!found) throw new RouseError(unknownId("event", id));
  if (more)
    throw new RouseError({
      code: "usage",
      message: `several events begin with ${id}; write more of the id`,
    });
  return found;
}

/**
 * Reads the selected events, newest first.
 * @throws RouseError `not_found` or `usage` if an id of `events` does not name one event.
 */
export async function* readEvents(
  store: Reader,
  { since, last, events, path }: Selection,
): AsyncGenerator<EventRecord> {
  if (events) {
    for (const id of events) yield await findEvent(store, id);
    return;
  }
  let count = 0;
  const query = { ...(since !== undefined && { since }), ...(path !== undefined && { path }) };
  for await (const event of readAll(store, "events", query, Math.min(PAGE, last))) {
    yield event;
    if (++count >= last) return;
  }
}
