import { chmod, mkdir, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Clock } from "../core/clock.ts";
import { RouseError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { StoreHandle } from "./types.ts";

function wrongUrl(message: string, cause?: unknown): RouseError {
  return new RouseError(
    { code: "config_invalid", message: `store.url: ${message}`, issues: [{ path: "store.url", message }] },
    cause === undefined ? undefined : { cause },
  );
}

function fileOf(url: string): string {
  if (!url.startsWith("sqlite:")) throw wrongUrl('only "sqlite:<path of a file>" is supported');
  const file = url.slice("sqlite:".length);
  if (file === "" || file === ":memory:")
    throw wrongUrl('write the path of a file after "sqlite:"; work that is accepted has to be on disk');
  return resolve(file);
}

/** The file is there, for its owner alone, before the database is opened: its companions take over its mode. */
async function prepareFile(file: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await writeFile(file, "", { flag: "wx", mode: 0o600 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  await chmod(file, 0o600);
}

/**
 * Opens the store that a URL names: `sqlite:<path>`. The caller holds the lock of the state folder.
 * @throws RouseError `config_invalid` for any other scheme, and for a file that cannot be used.
 */
export async function openStore(options: { url: string; clock: Pick<Clock, "now">; log: Logger }): Promise<StoreHandle> {
  const file = fileOf(options.url);
  try {
    await prepareFile(file);
    const { openSqlite } = await import("./sqlite/driver.ts");
    return openSqlite(file, options.clock, options.log);
  } catch (error) {
    if (error instanceof RouseError) throw error;
    const { code, errstr } = error as { code?: string; errstr?: string };
    throw wrongUrl(
      `${file} cannot be used (${errstr ?? code ?? "error"}); check that it is a store of this program and that its folder can be written`,
      error,
    );
  }
}
