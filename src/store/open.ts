import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { urlError } from "./sql/errors.ts";
import type { SqlSource } from "./sql/sql.ts";
import { SQLITE } from "./sqlite/store-driver.ts";
import type { OpenOptions, StoreDriver, StoreHandle } from "./types.ts";

/** Where work is kept: as the config says, or by default. */
export const storeUrl = (configured: string | undefined, stateDir: string): string =>
  configured ?? `sqlite:${join(stateDir, "rouse.db")}`;

/** Two folders up: the clone, or the folder `dist` of the built package, beside which the catalog is. */
const PLUGINS = ["../../plugins/", "../../../plugins/"].map(
  (path) => new URL(path, import.meta.url),
);

interface ShippedStore {
  id: string;
  protocols: readonly string[];
}

/** The stores among Rouse's own plugins, by the catalog: no plugin is loaded for the answer. */
function shippedStores(): ShippedStore[] {
  const catalog = PLUGINS.map((folder) => new URL("catalog.json", folder)).find((file) =>
    existsSync(file),
  );
  if (catalog === undefined) return [];
  const entries = JSON.parse(readFileSync(catalog, "utf8")) as {
    id: string;
    protocols?: string[];
  }[];
  return entries.flatMap(({ id, protocols }) => (protocols ? [{ id, protocols }] : []));
}

async function loadShipped({ id }: ShippedStore): Promise<StoreDriver> {
  const index = new URL(
    `${id}/index${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`,
    PLUGINS[0],
  );
  const { default: plugin } = (await import(index.href)) as { default: { store: StoreDriver } };
  return plugin.store;
}

const getProtocol = (url: string): string | undefined =>
  /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase();

/** Whether a URL names a store that comes with Rouse, so that the user's plugins need not be loaded to open it. */
export function isShippedStore(url: string): boolean {
  const protocol = getProtocol(url) ?? "";
  return [SQLITE, ...shippedStores()].some(({ protocols }) => protocols.includes(protocol));
}

/**
 * Finds the driver of a URL: SQLite, a store of the user's plugins (`drivers`), or one of Rouse's own plugins, which is
 * loaded then.
 * @throws RouseError `config_invalid` if no driver has the URL's protocol.
 */
export async function findStoreDriver(
  url: string,
  drivers: readonly StoreDriver[] = [],
): Promise<StoreDriver> {
  const protocol = getProtocol(url) ?? "";
  const found = [SQLITE, ...drivers].find(({ protocols }) => protocols.includes(protocol));
  if (found) return found;
  const all = shippedStores();
  const shipped = all.find(({ protocols }) => protocols.includes(protocol));
  if (shipped) return loadShipped(shipped);
  const known = [SQLITE, ...drivers, ...all].flatMap(({ protocols }) =>
    protocols.map((name) => `${name}:`),
  );
  const what =
    protocol === "" ? "the URL has no protocol" : `no store has the protocol "${protocol}:"`;
  const message = `${what}; known are ${known.join(", ")}. A plugin with a \`store\` adds others: name it in \`plugins\``;
  throw urlError(message);
}

/** The database of a store in which other parts of the program may have tables; undefined if the store has none. */
export const getSqlSource = ({ sql }: StoreDriver, url: string): SqlSource | undefined =>
  sql && { url, ...sql };

/**
 * Opens the store that a URL names. The caller holds the lock of the state folder, shared if the driver is.
 * @throws RouseError `config_invalid` for a URL or a database that cannot be used, `store_unavailable` if it does not answer.
 */
export async function openStore(
  options: OpenOptions & { drivers?: readonly StoreDriver[] },
): Promise<StoreHandle> {
  const driver = await findStoreDriver(options.url, options.drivers);
  return driver.open(options);
}
