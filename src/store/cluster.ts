import { safeError } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/log.ts";
import type { Ms } from "./records.ts";

/** The proof of a lease for commits that only its holder may make. The store refuses it as soon as another gateway could have the lease. */
export interface FencingToken {
  lease: string;
  /** One more each time that the lease is taken. */
  token: number;
}

/** A lease that this gateway has. */
export interface Held {
  /** Aborts when the lease is lost, or is not wanted any more: before another gateway can have it. */
  signal: AbortSignal;
  /** For every commit made under the lease; undefined if no other gateway can have it. */
  fencingToken: FencingToken | undefined;
}

/** The facts that a gateway publishes about itself to the other gateways. */
export interface PeerInfo {
  host: string;
  pid: number;
  version: string;
  url: string | undefined;
  /** The hash of the config in use and its files, without what belongs to a machine. */
  snapshot: string;
  workers: boolean;
  startedAt: Ms;
}

/** A gateway of this store. `info` is missing until the gateway has published it. */
export interface Peer {
  id: string;
  self: boolean;
  /** By the database's clock. */
  lastSeen: Ms;
  /** Heard of within the time of a lease. */
  alive: boolean;
  /** No sign of life for the time of a lease in which the store could be reached: its process has ended. */
  gone: boolean;
  info: PeerInfo | undefined;
}

export interface LeaseRecord {
  name: string;
  /** Id of the gateway that has it; undefined if no gateway has it now. */
  holder: string | undefined;
  since: Ms;
}

/** The topics of notifications between gateways, which may get lost. */
export type Topic = "cancel" | "nudge" | "spent" | "answered";

/** The gateways that share a store: who they are, and what only one of them does at a time. */
export interface Cluster {
  /** This process's own; never the same twice. */
  readonly id: string;
  /** True if other gateways may use the store. */
  readonly shared: boolean;
  /**
   * True while the store takes work: false some seconds after a database, or the way to it, is gone; and from a commit that a
   * disk refused until one goes through again.
   */
  reachable(): boolean;
  /**
   * False after the store was asked and has answered nothing for 3 seconds. Absent if the store cannot hang, since it is in this
   * process.
   */
  responding?(): boolean;
  /**
   * Runs `run` whenever this gateway has the lease, until `run` returns by itself or `signal` aborts; resolves when it
   * has ended. A `run` that throws gives the lease back, and is begun again later. Never rejects.
   */
  hold(name: string, signal: AbortSignal, run: (held: Held) => Promise<void>): Promise<void>;
  leases(): Promise<LeaseRecord[]>;
  /** Sets what this gateway publishes about itself; read again at each sign of life. */
  describe(info: () => PeerInfo): void;
  list(): Promise<Peer[]>;
  /** Notifies the other gateways, soon; a notification that cannot be sent is lost. */
  tell(topic: Topic, values: readonly string[]): void;
  /** Hears what others tell. Returns its undo. */
  on(topic: Topic, listener: (values: readonly string[]) => void): () => void;
}

/** After an error a lease is left to others for so long. */
const AFTER_ERROR_MS = 1000;

/** Runs what a lease is for; returns whether it is to be held again. */
export async function runHeld(
  name: string,
  held: Held,
  run: (held: Held) => Promise<void>,
  log: Logger,
): Promise<boolean> {
  try {
    await run(held);
    return held.signal.aborted;
  } catch (error) {
    if (!held.signal.aborted)
      log.error(
        { err: safeError(error), lease: name },
        "what one gateway does for all has failed; it is tried again",
      );
    await new Promise((resolve) => setTimeout(resolve, AFTER_ERROR_MS).unref());
    return true;
  }
}

/** A gateway that has its store for itself: it holds everything. */
export function singleNode(now: () => Ms, log: Logger): Cluster {
  const id = newId("gwy", now());
  const held = new Map<string, Ms>();
  let describe: (() => PeerInfo) | undefined;
  return {
    id,
    shared: false,
    reachable: () => true,
    async hold(name, signal, run) {
      held.set(name, now());
      while (
        !signal.aborted &&
        (await runHeld(name, { signal, fencingToken: undefined }, run, log))
      );
      held.delete(name);
    },
    leases: async () => [...held].map(([name, since]) => ({ name, holder: id, since })),
    describe: (info) => void (describe = info),
    list: async () => [
      { id, self: true, lastSeen: now(), alive: true, gone: false, info: describe?.() },
    ],
    tell: () => undefined,
    on: () => () => undefined,
  };
}
