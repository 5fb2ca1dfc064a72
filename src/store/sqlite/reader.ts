import { DatabaseSync } from "node:sqlite";
import type { StoreReader } from "../types.ts";
import { createSqliteReads } from "./reads.ts";
import { Statements } from "./statements.ts";

/** A gateway that checkpoints holds its lock for so long at most. */
const BUSY_MS = 5000;

/** Opens a connection to the file that cannot write. What gateways write meanwhile is seen by the next read. */
export function openSqliteReader(file: string, now: () => number): StoreReader {
  const db = new DatabaseSync(file, { readOnly: true, timeout: BUSY_MS });
  const reads = createSqliteReads({
    sql: new Statements(db),
    jobs: { counts: () => [] },
    // To make runs of events is the gateway's work.
    loop: { catchUp: () => Promise.resolve() },
    now,
  });
  return { ...reads, close: async () => db.close() };
}
