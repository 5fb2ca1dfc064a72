import { RouseError } from "../../core/errors.ts";
import { RecordedWrites, newEvent, noOps } from "./recorded.ts";
import { LEASE_LOST, type Fence, type Job, type Ms, type Store, type Writes } from "../types.ts";
import type { Db } from "./db.ts";
import { newKeys } from "./keys.ts";
import type { Lane } from "./lane.ts";
import { createReads } from "./reads.ts";
import type { Signals } from "./signals.ts";
import { sweep } from "./sweep.ts";

export interface StoreParts {
  db: Db;
  now: () => Ms;
  /** Hooks that come in, and the work on them: neither waits for the other's transactions. */
  accepting: Lane;
  committing: Lane;
  signals: Signals;
  close(): Promise<void>;
}

/** The store over one PostgreSQL schema. */
export function createPostgresStore({ db, now, accepting, committing, signals, close }: StoreParts): Store {
  let closing: Promise<void> | undefined;
  return {
    ...createReads(db, now),
    async accept(event, entries = [], fence?) {
      const ops = { ...noOps(), events: [newEvent(event)] };
      const outcome = await accepting.add({ keys: newKeys(event.id, entries), record: () => ops, ...(fence ? { held: fence } : {}) });
      if (outcome.kind === "lost" && event.actions.some((action) => action.kind === "run" && action.collect?.shared))
        return { kind: "closed" };
      if (outcome.kind === "lost") throw new RouseError(LEASE_LOST);
      return outcome.kind === "duplicate" ? { kind: "duplicate", record: outcome.record } : { kind: "accepted" };
    },
    async commit(write: (tx: Writes) => void, held?: Job | Fence) {
      const record = () => {
        const writes = new RecordedWrites();
        write(writes);
        return writes.ops;
      };
      const outcome = await committing.add({ record, ...(held ? { held } : {}) });
      return outcome.kind === "done";
    },
    onSystemEvents: signals.onWake,
    sweep: (at, retention, fence) => sweep(db, at, retention, { fence, stopped: () => closing !== undefined }),
    async backup() {
      throw new RouseError({
        code: "usage",
        message: `the store is in PostgreSQL: back it up with pg_dump, for example pg_dump --schema=${db.address.schema} --format=custom`,
      });
    },
    close: () => (closing ??= close()),
  };
}
