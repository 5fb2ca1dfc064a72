import type { StoreHandle } from "../../src/store/types.ts";

type Changes = { [K in "store" | "queue" | "cluster"]?: Partial<StoreHandle[K]> };

/** Stores with one flaw each, by the test that has to find it. */
export const STORE_FLAWS: readonly [string, (handle: StoreHandle) => Changes][] = [
  [
    "give back what holds the key",
    ({ store }) => ({
      store: { accept: (event, _, fencingToken) => store.accept(event, [], fencingToken) },
    }),
  ],
  [
    "that is over writes nothing",
    ({ store }) => ({ store: { commit: (write) => store.commit(write) } }),
  ],
  ["takes a body away when its time is over", () => ({ store: { sweep: async () => 0 } })],
  [
    "newest first, in pages",
    ({ store }) => ({
      store: {
        events: {
          ...store.events,
          list: async (query) => (await store.events.list(query)).toReversed(),
        },
      },
    }),
  ],
  [
    "comes with what was put in",
    ({ queue }) => ({
      queue: {
        fetch: async (...query) =>
          (await queue.fetch(...query)).map((job) => ({ ...job, attempts: 0 })),
      },
    }),
  ],
  ["a gateway has a lease until it lets it go", () => ({ cluster: { leases: async () => [] } })],
];
