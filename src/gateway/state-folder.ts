import type { Clock } from "../core/clock.ts";
import { ensureState, stateSecret } from "../config/state.ts";
import { removeUnfinishedSaves } from "../operate/edits/user-files.ts";
import { acquireLock } from "../store/lock.ts";
import { findStoreDriver, getSqlSource, storeUrl } from "../store/open.ts";
import type { LoadedSnapshot } from "./snapshot.ts";

/**
 * Takes the state folder of a config, which no other gateway uses from now on.
 * @throws RouseError `store_locked`.
 */
export async function takeStateFolder(
  { snapshot, stateDir }: LoadedSnapshot,
  opened: AsyncDisposableStack,
  clock: Clock,
) {
  const { hooks, store } = snapshot.config;
  await ensureState(stateDir);
  const url = storeUrl(store.url, stateDir);
  const driver = await findStoreDriver(url);
  const lock = await acquireLock(stateDir, undefined, driver);
  opened.defer(() => lock.release());
  await removeUnfinishedSaves({ ...snapshot, hooks, stateDir, now: clock.now() });
  return {
    lock,
    /** The hook token that is kept in it. */
    keptToken: await stateSecret(stateDir, "hook-token"),
    /** The token that is kept in it: commands on this machine send it, whatever `gateway.token` is. */
    localToken: await stateSecret(stateDir, "gateway-token"),
    driver,
    /** The address of the store. */
    url,
    sql: getSqlSource(driver, url),
  };
}
