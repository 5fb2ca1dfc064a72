import { ensureState, stateSecret } from "../config/state.ts";
import { removeUnfinishedSaves } from "../operate/edits/user-files.ts";
import { acquireLock, type Lock } from "../store/lock.ts";
import { findStoreDriver, getSqlSource, storeUrl } from "../store/open.ts";
import type { StoreDriver } from "../store/types.ts";
import type { LoadedSnapshot } from "./snapshot.ts";

/** The state folder of a gateway, and what its config says of the store. */
interface StateFolder {
  lock: Lock;
  /** The hook token that is kept in it. */
  keptToken: string;
  /** The token that is kept in it: commands on this machine send it, whatever `gateway.token` is. */
  localToken: string;
  driver: StoreDriver;
  /** The address of the store. */
  url: string;
  sql: ReturnType<typeof getSqlSource>;
}

/**
 * Takes the state folder of a config, which no other gateway uses from now on.
 * @throws RouseError `store_locked`.
 */
export async function takeStateFolder(
  { snapshot, stateDir }: LoadedSnapshot,
  opened: AsyncDisposableStack,
): Promise<StateFolder> {
  const { hooks, store } = snapshot.config;
  await ensureState(stateDir);
  const url = storeUrl(store.url, stateDir);
  const driver = await findStoreDriver(url);
  const lock = await acquireLock(stateDir, undefined, driver);
  opened.defer(() => lock.release());
  await removeUnfinishedSaves({ ...snapshot, hooks, stateDir });
  return {
    lock,
    keptToken: await stateSecret(stateDir, "hook-token"),
    localToken: await stateSecret(stateDir, "gateway-token"),
    driver,
    url,
    sql: getSqlSource(driver, url),
  };
}
