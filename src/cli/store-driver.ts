import { withSnapshot } from "../gateway/snapshot.ts";
import { findStoreDriver, isShippedStore } from "../store/open.ts";
import type { StoreDriver } from "../store/types.ts";
import { SYSTEM, type CliIo } from "./io.ts";
import type { CommonOptions } from "./options.ts";

/**
 * Finds the driver of a store's URL. Loads the plugins of the config only if the store does not come with Rouse.
 * @throws RouseError `config_invalid` if no driver has the URL's protocol.
 */
export async function findDriver(
  url: string,
  { config }: CommonOptions,
  io: CliIo,
): Promise<StoreDriver> {
  if (isShippedStore(url)) return findStoreDriver(url);
  const options = {
    ...(config === undefined ? {} : { configFile: config }),
    cwd: io.cwd,
    env: io.env,
  };
  return withSnapshot({ ...options, ...SYSTEM, withoutSecrets: true }, (result) =>
    findStoreDriver(
      url,
      result.ok ? result.loaded.snapshot.offers.stores.map(({ value }) => value) : [],
    ),
  );
}
