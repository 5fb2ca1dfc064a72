import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { RouseError, type Failure } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { SharedValues, PluginContext } from "../contract/channel.ts";

/** Everything that the gateway lends to its plugins. */
export interface PluginEnvironment {
  /** The config's folder: `plugins/` in it, and where paths and package names are resolved from. */
  baseDir: string;
  stateDir: string;
  /** Values that all gateways on one database see; undefined if there is one gateway. */
  sharedValues?: () => SharedValues | undefined;
  fetch: typeof fetch;
  clock: { now(): number };
  log: Logger;
  /** Writes to the terminal of the gateway; absent if it has none. */
  print?(text: string): void;
}

const NO_TERMINAL: Failure = {
  code: "usage",
  message:
    "this gateway has no terminal to print on: pass `print` to createGateway, or use another channel",
};

/** Creates what a plugin gets: its checked section, and of the gateway only what the contract names. */
export function createContext(
  id: string,
  config: unknown,
  signal: AbortSignal,
  options: PluginEnvironment,
): PluginContext<unknown> {
  const log = options.log.child({ plugin: id });
  const sharedValues = (): SharedValues | undefined => {
    const values = options.sharedValues?.();
    const toKey = (key: string): string => `plugin:${id}:${key}`;
    return (
      values && {
        get: (key) => values.get(toKey(key)),
        set: (key, value) => values.set(toKey(key), value),
      }
    );
  };
  const folder = join(options.stateDir, "plugins", id.replace(":", "-"));
  return {
    config,
    fetch: options.fetch,
    clock: options.clock,
    log: {
      debug: (message) => log.debug(message),
      info: (message) => log.info(message),
      warn: (message) => log.warn(message),
      error: (message) => log.error(message),
    },
    signal,
    baseDir: options.baseDir,
    print(text) {
      if (!options.print) throw new RouseError(NO_TERMINAL);
      options.print(text);
    },
    async stateDir() {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      return folder;
    },
    sharedValues,
  };
}
