import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { PluginContext } from "../contract/channel.ts";
import { replaceFile } from "../core/replace-file.ts";

/** Values by key that outlast a restart. */
export interface KeyValueStore<T> {
  get(key: string): Promise<T | undefined>;
  /** Keeps a value under these keys. It is on disk when this resolves; if it cannot be written, a warning says so and it is kept until the gateway stops. */
  set(keys: readonly string[], value: T): Promise<void>;
}

/**
 * Keeps values in a file of the plugin that only its owner can read; the oldest ones go when there are more than `max`.
 * Gateways that share a store see each other's values. `what` names the values in warnings. `isValid`: whether a value
 * is still to be used, as after a change of the config.
 */
export function createKeyValueStore<T>(
  {
    log,
    stateDir,
    sharedValues,
  }: Pick<PluginContext<unknown>, "log" | "stateDir" | "sharedValues">,
  {
    file,
    max,
    what,
    isValid = () => true,
  }: { file: string; max: number; what: string; isValid?(value: T): boolean },
): KeyValueStore<T> {
  let loaded: Promise<Map<string, T>> | undefined;
  let writing: Promise<void> = Promise.resolve();
  const load = async (): Promise<Map<string, T>> => {
    try {
      return new Map(
        JSON.parse(await readFile(join(await stateDir(), file), "utf8")) as [string, T][],
      );
    } catch (error) {
      if ((error as { code?: unknown }).code !== "ENOENT")
        log.warn(`the stored ${what} cannot be read; they are learnt again`);
      return new Map();
    }
  };
  const known = (): Promise<Map<string, T>> => (loaded ??= load());
  const write = async (entries: Map<string, T>): Promise<void> => {
    await replaceFile(join(await stateDir(), file), JSON.stringify([...entries]), { mode: 0o600 });
  };
  const tell = async (keys: readonly string[], value: T, text: string): Promise<void> => {
    const values = sharedValues?.();
    if (!values) return;
    for (const key of keys) {
      const name = `${file}:${key}`;
      if (JSON.stringify(await values.get(name)) !== text) await values.set(name, value);
    }
  };
  return {
    async get(key) {
      // Another gateway's may be newer.
      const others = (await sharedValues?.()
        ?.get(`${file}:${key}`)
        .catch(() => undefined)) as T | undefined;
      const found = others ?? (await known()).get(key);
      return found !== undefined && isValid(found) ? found : undefined;
    },
    async set(keys, value) {
      const entries = await known();
      const text = JSON.stringify(value);
      await tell(keys, value, text).catch(() =>
        log.warn(`other gateways do not hear of ${what} that are new: the store took none`),
      );
      if (keys.every((key) => JSON.stringify(entries.get(key)) === text)) return writing;
      for (const key of keys) {
        entries.delete(key);
        entries.set(key, value);
      }
      for (const key of entries.keys()) {
        if (entries.size <= max) break;
        entries.delete(key);
      }
      writing = writing
        .then(() => write(entries))
        .catch(() =>
          log.warn(
            `${what} that are new could not be written to disk: they are known until the gateway stops`,
          ),
        );
      await writing;
    },
  };
}
