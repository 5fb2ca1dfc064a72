import { withSnapshot } from "../../gateway/validate-config.ts";
import { findStoreDriver, isShippedStore } from "../../store/open.ts";
import type { StoreDriver } from "../../store/types.ts";
import type { CliIo } from "../io.ts";
import { toSnapshotOptions } from "../settings.ts";

/**
 * Finds the driver of a store's URL. Loads the plugins of the config only if the store does not come with Rouse.
 * @throws RouseError `config_invalid` if no driver has the URL's protocol.
 */
export async function findDriver(
  url: string,
  { config }: { config?: string | undefined },
  io: CliIo,
): Promise<StoreDriver> {
  if (isShippedStore(url)) return findStoreDriver(url);
  return withSnapshot({ ...toSnapshotOptions({ config }, io), withoutSecrets: true }, (result) =>
    findStoreDriver(
      url,
      result.ok ? result.loaded.snapshot.offers.stores.map(({ value }) => value) : [],
    ),
  );
}
