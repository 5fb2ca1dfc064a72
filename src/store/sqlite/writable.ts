import type { SqliteGroupCommit } from "./group-commit.ts";
import type { Statements } from "./statements.ts";

/** Between looks whether a store that could not commit can do so again. */
const LOOK_MS = 1000;

/** Whether the database's disk takes commits. */
export interface Writable {
  /** False from a commit that failed, as on a disk that is full, until one has gone through again. */
  isWritable(): boolean;
  /** To be called when a commit has failed. */
  failed(): void;
  close(): void;
}

/**
 * Remembers whether commits go through. After one has failed it commits by itself from time to time: a gateway that is
 * taken out of service gets no hook by which it could notice that there is room again.
 */
export function createWritable(sql: Statements, group: () => SqliteGroupCommit): Writable {
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;

  const look = (): void => {
    group()
      .add(() => sql.run("INSERT INTO marks VALUES ('written', 0) ON CONFLICT (name) DO UPDATE SET seq = seq + 1"), { many: false })
      .then(
        () => (timer = undefined),
        () => lookLater(),
      );
  };
  const lookLater = (): void => {
    if (!isClosed) timer = setTimeout(look, LOOK_MS).unref();
  };

  return {
    isWritable: () => timer === undefined,
    failed() {
      if (timer === undefined) lookLater();
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}
