import type { SqliteGroupCommit } from "./group-commit.ts";
import type { Statements } from "./statements.ts";

/** Between looks whether a store that could not commit can do so again. */
const LOOK_MS = 1000;
/** After so long without a commit, one is made to see whether the disk still takes it. */
const IDLE_MS = 5000;

/** Whether the database's disk takes commits. */
export interface Writable {
  /** False from a commit that failed, as on a disk that is full, until one has gone through again. */
  isWritable(): boolean;
  /** To be called when a commit went through. */
  committed(): void;
  /** To be called when a commit has failed. */
  failed(): void;
  close(): void;
}

/**
 * Remembers whether commits go through, and makes one of its own from time to time while there are no others: a gateway
 * without work notices that its disk is full before a hook does, and one that is taken out of service that there is room again.
 */
export function createWritable(sql: Statements, group: () => SqliteGroupCommit): Writable {
  let isWritable = true;
  let isClosed = false;
  let hasCommitted = false;

  const commit = (): Promise<boolean> =>
    group()
      .add(
        () =>
          sql.run(
            "INSERT INTO marks VALUES ('written', 0) ON CONFLICT (name) DO UPDATE SET seq = seq + 1",
          ),
        { many: false },
      )
      .then(
        () => true,
        () => false,
      );
  const look = async (): Promise<void> => {
    if (!isWritable || !hasCommitted) isWritable = await commit();
    hasCommitted = false;
    lookLater();
  };
  let timer: NodeJS.Timeout | undefined;
  const lookLater = (): void => {
    clearTimeout(timer);
    if (!isClosed) timer = setTimeout(() => void look(), isWritable ? IDLE_MS : LOOK_MS).unref();
  };
  lookLater();

  return {
    isWritable: () => isWritable,
    committed: () => void (hasCommitted = true),
    failed() {
      if (!isWritable) return;
      isWritable = false;
      lookLater();
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}
