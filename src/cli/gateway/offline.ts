import type { LoadedSnapshot } from "../../gateway/snapshot.ts";
import { withSnapshot } from "../../gateway/validate-config.ts";
import { findConfig } from "../../config/load.ts";
import { readGateway } from "../../store/lock.ts";
import { findStoreDriver, storeUrl } from "../../store/open.ts";
import type { StoreReader } from "../../store/types.ts";
import { SYSTEM, type CliIo } from "../io.ts";
import { configInvalid, findUsable, toLoadOptions, toSnapshotOptions } from "../settings.ts";

/** A snapshot of files, and the state folder that its config names. */
export type Offline = Pick<LoadedSnapshot, "snapshot" | "stateDir">;

interface Files {
  /** Undefined: the usual places. */
  config?: string | undefined;
  /** The name of the config in errors, such as "the proposed config". */
  title?: string;
  /** Default: the network of this machine. */
  fetch?: typeof fetch;
}

/**
 * Builds a snapshot from files for one use, without secrets. Starts nothing, opens no store and writes nothing.
 * @throws RouseError `config_invalid` with all problems of the config.
 */
export function withFiles<T>(
  { config, title, ...network }: Files,
  io: CliIo,
  use: (offline: Offline) => Promise<T>,
): Promise<T> {
  const files = { ...toSnapshotOptions({ config }, io), ...network, withoutSecrets: true };
  return withSnapshot(files, (result) => {
    if (!result.ok) throw configInvalid(result, title);
    return use(result.loaded);
  });
}

/** The config that decides about hooks today: that of the gateway that runs, else the one in the usual places. */
export async function findTodaysConfig(io: CliIo): Promise<string | undefined> {
  const { stateDir } = (await findUsable({}, io)) ?? {};
  const running = stateDir === undefined ? undefined : readGateway(stateDir);
  return running?.config ?? findConfig(toLoadOptions({}, io));
}

/**
 * Reads the store of a config with a connection that cannot write, whether a gateway runs or not.
 * @throws RouseError `not_found` if nothing was stored yet, `config_invalid` if the store cannot be used.
 */
export async function withReader<T>(
  { snapshot, stateDir }: Offline,
  io: CliIo,
  use: (store: StoreReader) => Promise<T>,
): Promise<T> {
  const url = storeUrl(snapshot.config.store.url, stateDir);
  const driver = await findStoreDriver(url);
  const store = await driver.openReader({ url, env: io.env, clock: SYSTEM.clock });
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}
