import { chmod, mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock } from "../core/clock.ts";
import { RouseError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { StoreHandle } from "./types.ts";

/**
 * Opens the store that a URL names: `sqlite:<path>`.
 * @throws RouseError `config_invalid` for any other scheme.
 */
export async function openStore(options: { url: string; clock: Pick<Clock, "now">; log: Logger }): Promise<StoreHandle> {
  const { url, clock, log } = options;
  if (!url.startsWith("sqlite:")) {
    const message = 'use "sqlite:<path>"';
    throw new RouseError({ code: "config_invalid", message: `store.url: ${message}`, issues: [{ path: "store.url", message }] });
  }
  const file = url.slice("sqlite:".length);
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const { openSqlite } = await import("./sqlite/driver.ts");
  const handle = openSqlite(file, clock, log);
  await chmod(file, 0o600);
  return handle;
}
