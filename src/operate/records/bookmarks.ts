import { RouseError } from "../../core/errors.ts";
import { StoredList, type StoredListDeps } from "../../store/stored-list.ts";
import type { EventRecord, Ms } from "../../store/types.ts";

/** An event that an operator keeps beyond `hooks.retention` and `store.retention`. */
export interface Bookmark {
  eventId: string;
  at: Ms;
  note?: string;
}

export interface Bookmarks {
  /** The newest event first. */
  list(): Promise<Bookmark[]>;
  find(eventId: string): Promise<Bookmark | undefined>;
  /** An event as the store has it, or what its bookmark has kept of it if retention has deleted the event or its body. */
  getEvent(id: string): Promise<EventRecord | undefined>;
  /**
   * Keeps an event with its body until the bookmark is removed. A second time it changes the note alone.
   * @throws RouseError `not_found` if there is no such event, `usage` if there are too many bookmarks.
   */
  add(id: string, note: string | undefined): Promise<Bookmark>;
  /** @throws RouseError `not_found` if the event has no bookmark. */
  remove(id: string): Promise<void>;
}

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

const notFound = (message: string): RouseError => new RouseError({ code: "not_found", message });

/**
 * Creates the bookmarks of a store. A bookmark is a copy of its event: retention deletes whole partitions of events, and a
 * copy needs no exception there.
 */
export function createBookmarks(deps: StoredListDeps): Bookmarks {
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
  return {
    list: async () => (await stored.read()).toSorted((a, b) => (a.eventId < b.eventId ? 1 : -1)),
    find,
    getEvent,
    async add(id, note) {
      const event = await getEvent(id);
      if (!event) throw notFound("there is no event with this id");
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
          throw new RouseError({
            code: "usage",
            message: `there are ${MAX_BOOKMARKS} bookmarks already; remove one of them`,
          });
        return { list: [...others, bookmark], result: bookmark };
      });
    },
    async remove(id) {
      const removed = await stored.change<boolean>((all) => {
        const list = all.filter(({ eventId }) => eventId !== id);
        return list.length === all.length ? { result: false } : { list, result: true };
      });
      if (!removed) throw notFound("the event has no bookmark");
      await store.commit((tx) => tx.values.set(toValue(id), null));
    },
  };
}
