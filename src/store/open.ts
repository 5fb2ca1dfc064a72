import { chmod, mkdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Clock } from "../core/clock.ts";
import { RouseError, type Issue } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { isPostgres } from "./postgres/address.ts";
import type { StoreHandle } from "./types.ts";

function wrongUrl(message: string): RouseError {
  return new RouseError({ code: "config_invalid", message: `store.url: ${message}`, issues: [{ path: "store.url", message }] });
}

/** The file of an embedded store. @throws RouseError `config_invalid` where the URL names none. */
export function fileOf(url: string): string {
  if (!url.startsWith("sqlite:")) throw wrongUrl('write "sqlite:<path of a file>" or "postgres://user:password@host:5432/database"');
  const file = url.slice("sqlite:".length);
  if (file === "" || file === ":memory:")
    throw wrongUrl('write the path of a file after "sqlite:"; work that is accepted has to be on disk');
  return resolve(file);
}

/** Where work is kept, as the config says or by default. */
export const storeUrl = (configured: string | undefined, stateDir: string): string => configured ?? `sqlite:${join(stateDir, "rouse.db")}`;

/** Whether several processes may use the store that a URL names, each with a state folder of its own or with the same one. */
export const isShared = (url: string): boolean => isPostgres(url);

/** The file is there, for its owner alone, before the database is opened: its companions take over its mode. */
async function prepareFile(file: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await writeFile(file, "", { flag: "wx", mode: 0o600 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  await chmod(file, 0o600);
}

/**
 * Opens the store that a URL names: `sqlite:<path>`, for which the caller holds the lock of the state folder, or
 * `postgres://…`, which any number of processes may use.
 * @throws RouseError `config_invalid` for any other scheme, and for a file or database that cannot be used;
 * `store_unavailable` where the database does not answer.
 */
export async function openStore(options: {
  url: string;
  /** Where PostgreSQL's user and password come from if the URL names none. */
  env?: Record<string, string | undefined>;
  clock: Pick<Clock, "now">;
  log: Logger;
}): Promise<StoreHandle> {
  if (isPostgres(options.url)) {
    const { openPostgres } = await import("./postgres/driver.ts");
    return openPostgres(options);
  }
  const file = fileOf(options.url);
  try {
    await prepareFile(file);
    const { openSqlite } = await import("./sqlite/driver.ts");
    return openSqlite(file, options.clock, options.log);
  } catch (error) {
    if (error instanceof RouseError) throw error;
    const { code, errstr } = error as { code?: string; errstr?: string };
    const message = `${file} cannot be used (${errstr ?? code ?? "error"}); check that it is a store of this program and that its folder can be written`;
    const issue: Issue = { path: "store.url", message, transient: true };
    throw new RouseError({ code: "config_invalid", message: `store.url: ${message}`, issues: [issue] }, { cause: error });
  }
}
