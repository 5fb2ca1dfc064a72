import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { z } from "zod";
import type { PluginContext } from "../contract/channel.ts";
import type { Capabilities, Plugin } from "../contract/define.ts";

/** Creates what the gateway gives a plugin. Its `print` and its log write nothing, and its state folder is a temporary one. */
export function createTestContext<C>(
  config: C,
  given: Partial<PluginContext<C>> = {},
): PluginContext<C> {
  const silent = (): void => undefined;
  return {
    config,
    fetch: globalThis.fetch,
    clock: { now: () => Date.now() },
    log: { debug: silent, info: silent, warn: silent, error: silent },
    signal: new AbortController().signal,
    baseDir: process.cwd(),
    stateDir: () => mkdtemp(join(tmpdir(), "rouse-state-")),
    print: silent,
    ...given,
  };
}

/**
 * Makes one capability of a plugin as the gateway does: checks the section, then calls the plugin with it.
 * @param given members of the context that are not the usual ones, such as `fetch`.
 * @throws Error if the section is not as the plugin's schema says, or if the plugin does not offer the capability.
 */
export async function createCapability<S extends z.ZodType, K extends keyof Capabilities>(
  plugin: Plugin<S>,
  kind: K,
  section: z.input<S>,
  given: Partial<PluginContext<z.output<S>>> = {},
): Promise<NonNullable<Capabilities[K]>> {
  const config = (plugin.config ? plugin.config.parse(section) : section) as z.output<S>;
  const context = createTestContext(config, given);
  const member = plugin[kind];
  const own = { [kind]: typeof member === "function" ? member(context) : member };
  const made: Capabilities = plugin.setup ? await plugin.setup(context) : own;
  const capability = made[kind];
  if (capability === undefined || capability === null)
    throw new Error(`the plugin "${plugin.id}" does not offer ${kind}`);
  return capability;
}
