/** A file of records, one a line, whose syncs are shared. */
import type { FileHandle } from "node:fs/promises";

interface Waiting {
  line: string;
  resolve(): void;
  reject(error: unknown): void;
}

/**
 * Returns what appends a record and resolves when it is on disk. Records that come while others are written and synced
 * are the next group: one write and one sync for all of them, by Node's threads.
 */
export function createGroupLog(
  file: Pick<FileHandle, "appendFile" | "datasync">,
): (record: unknown) => Promise<void> {
  let waiting: Waiting[] = [];
  let writing = false;
  const write = async (): Promise<void> => {
    writing = true;
    while (waiting.length > 0) {
      const group = waiting;
      waiting = [];
      try {
        await file.appendFile(group.map(({ line }) => line).join(""));
        await file.datasync();
        for (const { resolve } of group) resolve();
      } catch (error) {
        for (const { reject } of group) reject(error);
      }
    }
    writing = false;
  };
  return (record) =>
    new Promise((resolve, reject) => {
      waiting.push({ line: `${JSON.stringify(record)}\n`, resolve, reject });
      if (!writing) void write();
    });
}
