import { join } from "node:path";
import { urlError } from "./sql/errors.ts";
import type { SqlSource } from "./sql/sql.ts";
import { SQLITE } from "./sqlite/store-driver.ts";
import type { OpenOptions, StoreDriver, StoreHandle } from "./types.ts";

/** The address of the store: that of the config, or a file in the state folder. */
export const storeUrl = (configured: string | undefined, stateDir: string): string =>
  configured ?? `sqlite:${join(stateDir, "rouse.db")}`;

/** Loaded when a URL asks for it: most gateways do without. */
async function loadPostgres(): Promise<StoreDriver> {
  const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
  const module = new URL(`../../plugins/postgres/store.${extension}`, import.meta.url);
  const { POSTGRES } = (await import(module.href)) as { POSTGRES: StoreDriver };
  return POSTGRES;
}

/** By the protocol of a URL. */
const DRIVERS: Readonly<Record<string, () => StoreDriver | Promise<StoreDriver>>> = {
  sqlite: () => SQLITE,
  postgres: loadPostgres,
  postgresql: loadPostgres,
};

/**
 * Finds the driver of a URL.
 * @throws RouseError `config_invalid` if no driver has the URL's protocol.
 */
export async function findStoreDriver(url: string): Promise<StoreDriver> {
  const protocol = /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase();
  const load =
    protocol !== undefined && Object.hasOwn(DRIVERS, protocol) ? DRIVERS[protocol] : undefined;
  if (load) return load();
  const known = Object.keys(DRIVERS).map((name) => `${name}:`);
  const what =
    protocol === undefined ? "the URL has no protocol" : `no store has the protocol "${protocol}:"`;
  throw urlError(`${what}; known are ${known.join(", ")}`);
}

/** The database of a store in which other parts of the program may have tables; undefined if the store has none. */
export const getSqlSource = ({ sql }: StoreDriver, url: string): SqlSource | undefined =>
  sql && { url, ...sql };

/**
 * Opens the store that a URL names. The caller holds the lock of the state folder, shared if the driver is.
 * @throws RouseError `config_invalid` for a URL or a database that cannot be used, `store_unavailable` if it does not answer.
 */
export async function openStore(options: OpenOptions): Promise<StoreHandle> {
  const driver = await findStoreDriver(options.url);
  return driver.open(options);
}
