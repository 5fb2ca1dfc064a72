import { readMonotonic, type Stopwatch } from "../core/clock.ts";
import { RouseError } from "../core/errors.ts";
import {
  LEASE_LOST,
  STORE_UNAVAILABLE,
  type Cluster,
  type Held,
  type Store,
  type Writes,
} from "./types.ts";

export interface StoredListDeps {
  store: Store;
  cluster: Pick<Cluster, "shared" | "hold">;
  clock: Stopwatch;
}

/** The new list, absent if it stays as it is, and the result for the caller. */
export interface ListChange<T, R> {
  list?: readonly T[];
  result: R;
  /** Adds to the commit of the new list. */
  write?(tx: Writes): void;
}

/** A change of another gateway is known here after this time at most. */
const FRESH_MS = 1000;
/** A change waits so long for that of another gateway. */
const MAX_TURN_MS = 20_000;

/** A short list in one value of the store. Gateways that share the store write one at a time. */
export class StoredList<T> {
  readonly #name: string;
  readonly #lease: string;
  readonly #deps: StoredListDeps;
  /** As it was at `#readAt`, a monotonic time. */
  #list: readonly T[] | undefined;
  #readAt = -Infinity;
  /** Changes of this process. */
  #changes = 0;
  #writing: Promise<unknown> = Promise.resolve();

  /**
   * @param name the name of the value
   * @param lease the name of the lease under which gateways change it; lists with one lease must not be changed at the same time
   */
  constructor(name: string, deps: StoredListDeps, lease = name) {
    this.#name = name;
    this.#lease = lease;
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
        tx.values.set(this.#name, list);
        add?.(tx);
      }, fencingToken);
      if (!isWritten) throw new RouseError(LEASE_LOST);
      this.#list = list;
      this.#changes++;
      return result;
    };
    const next = this.#writing.then(() =>
      cluster.shared ? this.#inTurn(write) : write({ fencingToken: undefined }),
    );
    this.#writing = next.catch(() => undefined);
    return next;
  }

  /** Removes the entries that `isMeant` is true for. Resolves to false if there are none. */
  remove(isMeant: (entry: T) => boolean): Promise<boolean> {
    return this.change<boolean>((list) =>
      list.some(isMeant)
        ? { list: list.filter((entry) => !isMeant(entry)), result: true }
        : { result: false },
    );
  }

  async #readNow(): Promise<readonly T[]> {
    const { store, clock } = this.#deps;
    const at = readMonotonic(clock);
    const changes = this.#changes;
    const list = ((await store.values.get(this.#name)) as readonly T[] | undefined) ?? [];
    // A change or a later read that has ended meanwhile is newer than what was read here.
    if (this.#list && (changes !== this.#changes || at < this.#readAt)) return this.#list;
    this.#list = list;
    this.#readAt = at;
    return list;
  }

  /** Writes when no other gateway does. Throws a `RouseError` if that takes too long. */
  #inTurn<R>(write: (held: Pick<Held, "fencingToken">) => Promise<R>): Promise<R> {
    return new Promise((resolve, reject) => {
      const signal = AbortSignal.timeout(MAX_TURN_MS);
      void this.#deps.cluster
        .hold(`once:${this.#lease}`, signal, (held) => write(held).then(resolve, reject))
        .finally(() => reject(new RouseError(STORE_UNAVAILABLE)));
    });
  }
}
