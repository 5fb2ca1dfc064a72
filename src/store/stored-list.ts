import { readMonotonic, type Stopwatch } from "../core/clock.ts";
import { RouseError } from "../core/errors.ts";
import { LEASE_LOST, STORE_UNAVAILABLE, type Cluster, type Held, type Store, type Writes } from "./types.ts";

export interface StoredListDeps {
  store: Store;
  cluster: Pick<Cluster, "shared" | "hold">;
  clock: Stopwatch;
}

/** What a change leaves: the new list, or nothing if it stays as it is, and what the caller gets. */
export interface ListChange<T, R> {
  list?: readonly T[];
  result: R;
  /** Adds to the commit of the new list. */
  write?(tx: Writes): void;
}

/** What another gateway has changed is known here after so long at most. */
const FRESH_MS = 1000;
/** A change waits so long for that of another gateway. */
const MAX_TURN_MS = 20_000;

/** A short list in one value of the store. Gateways that share the store write one at a time. */
export class StoredList<T> {
  readonly #name: string;
  readonly #deps: StoredListDeps;
  /** As it was at `#readAt`, a monotonic time. */
  #list: readonly T[] | undefined;
  #readAt = -Infinity;
  #writing: Promise<unknown> = Promise.resolve();

  /** @param name the name of the value */
  constructor(name: string, deps: StoredListDeps) {
    this.#name = name;
    this.#deps = deps;
  }

  async read(): Promise<readonly T[]> {
    const { cluster, clock } = this.#deps;
    const fresh = !cluster.shared || readMonotonic(clock) - this.#readAt < FRESH_MS;
    return this.#list && fresh ? this.#list : this.#readNow();
  }

  /** Reads what every gateway has changed until now. */
  readLatest(): Promise<readonly T[]> {
    return this.#deps.cluster.shared ? this.#readNow() : this.read();
  }

  /**
   * Makes one change at a time, each on disk before it counts.
   * @throws RouseError `store_unavailable`
   */
  change<R>(make: (list: readonly T[]) => ListChange<T, R>): Promise<R> {
    const { store, cluster } = this.#deps;
    const write = async ({ fencingToken }: Pick<Held, "fencingToken">): Promise<R> => {
      const { list, result, write: add } = make(await this.readLatest());
      if (!list) return result;
      const isWritten = await store.commit((tx) => {
        tx.set("value", this.#name, list);
        add?.(tx);
      }, fencingToken);
      if (!isWritten) throw new RouseError(LEASE_LOST);
      this.#list = list;
      return result;
    };
    const next = this.#writing.then(() => (cluster.shared ? this.#inTurn(write) : write({ fencingToken: undefined })));
    this.#writing = next.catch(() => undefined);
    return next;
  }

  async #readNow(): Promise<readonly T[]> {
    const { store, clock } = this.#deps;
    const at = readMonotonic(clock);
    this.#list = ((await store.get("value", this.#name)) as readonly T[] | undefined) ?? [];
    this.#readAt = at;
    return this.#list;
  }

  /** Writes when no other gateway does. Throws a `RouseError` if that takes too long. */
  #inTurn<R>(write: (held: Pick<Held, "fencingToken">) => Promise<R>): Promise<R> {
    return new Promise((resolve, reject) => {
      const signal = AbortSignal.timeout(MAX_TURN_MS);
      void this.#deps.cluster
        .hold(`once:${this.#name}`, signal, (held) => write(held).then(resolve, reject))
        .finally(() => reject(new RouseError(STORE_UNAVAILABLE)));
    });
  }
}
