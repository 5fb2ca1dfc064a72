import { backup, DatabaseSync } from "node:sqlite";

/** More pages than a database has: the copy is one step and so one snapshot, while others write. */
const ALL_PAGES = 2 ** 31 - 1;

/**
 * Copies a database into a file that is new or empty, also while it is in use. A connection of its own, since a step
 * that runs while another one of this process is inside a transaction fails.
 */
export async function copyDatabase(from: string, to: string): Promise<void> {
  const source = new DatabaseSync(from, { readOnly: true });
  try {
    await backup(source, to, { rate: ALL_PAGES });
  } finally {
    source.close();
  }
}
