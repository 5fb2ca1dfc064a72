import type { Adds, Deletes, Sets, Updates, Writes } from "./types.ts";

type Functions<T extends { [K in keyof T]: unknown[] }> = { [K in keyof T]: (...of: T[K]) => void };

/** What a driver does for each kind of change. */
export interface WriteTable extends Pick<Writes, "settle"> {
  add: Functions<Adds>;
  set: Functions<Sets>;
  update: Functions<Updates>;
  delete: Functions<Deletes>;
}

/** The writing side of a commit, by a table of what to do. */
export const toWrites = (table: WriteTable): Writes => ({
  add: (kind, ...of) => table.add[kind](...of),
  set: (kind, ...of) => table.set[kind](...of),
  update: (kind, ...of) => table.update[kind](...of),
  delete: (kind, ...of) => table.delete[kind](...of),
  settle: table.settle,
});
