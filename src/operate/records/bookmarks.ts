import { RouseError } from "../../core/errors.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { StoredList, type StoredListDeps } from "../../store/stored-list.ts";
import type { EventRecord, Ms } from "../../store/types.ts";
import { found, refuse } from "./operation.ts";

/** An event that an operator keeps beyond `hooks.retention` and `store.retention`. */
export interface Bookmark {
  eventId: string;
  at: Ms;
  note?: string;
}

export type Bookmarks = ReturnType<typeof createBookmarks>;

/** Each may have a body of megabytes. */
export const MAX_BOOKMARKS = 500;
const VALUE = "events.bookmarks";
const toValue = (id: string): string => `${VALUE}.${id}`;

/** An event as it is kept: with its body in base64. */
type KeptEvent = Omit<EventRecord, "request"> & {
  request: Omit<EventRecord["request"], "body"> & { body: string | null };
};

const toKept = ({ request: { body, ...request }, ...event }: EventRecord): KeptEvent => ({
  ...event,
  request: { ...request, body: body === null ? null : Buffer.from(body).toString("base64") },
});

const fromKept = ({ request: { body, ...request }, ...event }: KeptEvent): EventRecord => ({
  ...event,
  request: { ...request, body: body === null ? null : Buffer.from(body, "base64") },
});

const hasBody = ({ request: { body } }: EventRecord): boolean => body !== null;

/**
 * Creates the bookmarks of a store. A bookmark is a copy of its event, so that retention needs no exception.
 */
export function createBookmarks(deps: StoredListDeps) {
  const { store, clock } = deps;
  const stored = new StoredList<Bookmark>(VALUE, deps);
  const find = async (id: string): Promise<Bookmark | undefined> =>
    (await stored.read()).find(({ eventId }) => eventId === id);
  const getEvent = async (id: string): Promise<EventRecord | undefined> => {
    const event = await store.events.get(id);
    if ((event && hasBody(event)) || !(await find(id))) return event;
    const kept = (await store.values.get(toValue(id))) as KeptEvent | null | undefined;
    if (!kept) return event;
    return { ...fromKept(kept), ...(event?.handled && { handled: event.handled }) };
  };
  /** @throws RouseError `not_found` */
  const requireEvent = async (id: string): Promise<EventRecord> =>
    found(await getEvent(id), unknownId("event", id));
  return {
    /** The newest event first. */
    list: async () => (await stored.read()).toSorted((a, b) => (a.eventId < b.eventId ? 1 : -1)),
    find,
    /** Returns an event as the store has it, or what its bookmark has kept of it if retention has deleted the event or its body. */
    getEvent,
    /** Does as `getEvent`. Throws a RouseError `not_found` if there is no such event. */
    requireEvent,
    /**
     * Keeps an event with its body until the bookmark is removed. A second time it changes the note alone.
     * @throws RouseError `not_found` if there is no such event, `usage` if there are too many bookmarks.
     */
    async add(id: string, note: string | undefined): Promise<Bookmark> {
      const event = await requireEvent(id);
      const bookmark: Bookmark = {
        eventId: id,
        at: clock.now(),
        ...(note === undefined ? {} : { note }),
      };
      // The copy is there before the bookmark, so that there is no bookmark without an event.
      await store.commit((tx) => tx.values.set(toValue(id), toKept(event)));
      return stored.change<Bookmark>((all) => {
        const others = all.filter(({ eventId }) => eventId !== id);
        if (others.length >= MAX_BOOKMARKS)
          refuse(`there are ${MAX_BOOKMARKS} bookmarks already; remove one of them`);
        return { list: [...others, bookmark], result: bookmark };
      });
    },
    /** @throws RouseError `not_found` if the event has no bookmark. */
    async remove(id: string): Promise<void> {
      if (!(await stored.remove(({ eventId }) => eventId === id)))
        throw new RouseError({ code: "not_found", message: "the event has no bookmark" });
      await store.commit((tx) => tx.values.set(toValue(id), null));
    },
  };
}
