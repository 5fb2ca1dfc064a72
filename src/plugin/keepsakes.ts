import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { PluginContext } from "./channel.ts";

/** Things by key that outlast a restart. */
export interface Keepsakes<T> {
  get(key: string): Promise<T | undefined>;
  /** Keeps a thing under these keys: on disk once this resolves, or else a warning says so, and it is known until the gateway stops. */
  keep(keys: readonly string[], thing: T): Promise<void>;
}

/**
 * Things by key in a file of the plugin's own, which its owner alone may read; the oldest go where there are more than
 * `most`. Gateways that share a store have them of each other. `what` names them in warnings. A thing of which `holds`
 * says no, as after a change of the config, is not given.
 */
export function keepsakes<T>(
  { log, stateDir, common }: Pick<PluginContext<unknown>, "log" | "stateDir" | "common">,
  { file, most, what, holds = () => true }: { file: string; most: number; what: string; holds?(thing: T): boolean },
): Keepsakes<T> {
  let loaded: Promise<Map<string, T>> | undefined;
  let writing: Promise<void> = Promise.resolve();
  const load = async (): Promise<Map<string, T>> => {
    try {
      return new Map(JSON.parse(await readFile(join(await stateDir(), file), "utf8")) as [string, T][]);
    } catch (error) {
      if ((error as { code?: unknown }).code !== "ENOENT") log.warn(`${what} that were known cannot be read; they are learnt anew`);
      return new Map();
    }
  };
  const known = (): Promise<Map<string, T>> => (loaded ??= load());
  const write = async (things: Map<string, T>): Promise<void> => {
    const path = join(await stateDir(), file);
    await writeFile(`${path}.new`, JSON.stringify([...things]), { mode: 0o600, flush: true });
    await rename(`${path}.new`, path);
  };
  const tell = async (keys: readonly string[], thing: T, text: string): Promise<void> => {
    const values = common?.();
    if (!values) return;
    for (const key of keys) {
      const name = `${file}:${key}`;
      if (JSON.stringify(await values.get(name)) !== text) await values.set(name, thing);
    }
  };
  return {
    async get(key) {
      // Another gateway's may be newer.
      const others = (await common?.()
        ?.get(`${file}:${key}`)
        .catch(() => undefined)) as T | undefined;
      const found = others ?? (await known()).get(key);
      return found !== undefined && holds(found) ? found : undefined;
    },
    async keep(keys, thing) {
      const things = await known();
      const text = JSON.stringify(thing);
      await tell(keys, thing, text).catch(() => log.warn(`other gateways do not hear of ${what} that are new: the store took none`));
      if (keys.every((key) => JSON.stringify(things.get(key)) === text)) return writing;
      for (const key of keys) {
        things.delete(key);
        things.set(key, thing);
      }
      for (const key of things.keys()) {
        if (things.size <= most) break;
        things.delete(key);
      }
      writing = writing
        .then(() => write(things))
        .catch(() => log.warn(`${what} that are new could not be written to disk: they are known until the gateway stops`));
      await writing;
    },
  };
}
