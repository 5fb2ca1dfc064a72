import type { Variables } from "../config/environment.ts";
import type { Account } from "./accounts.ts";
import type { PluginContext } from "../contract/channel.ts";
import { checkSection, type CheckedPlugin } from "./check.ts";
import { CAPABILITIES, checkCapabilities } from "./check-capabilities.ts";
import { createContext, type PluginEnvironment } from "./context.ts";
import type { Capabilities, Plugin } from "../contract/define.ts";
import { explain } from "./import.ts";
import type { FoundSection } from "./sections.ts";

interface MakeOptions extends PluginEnvironment {
  /** Fields of the config that one variable of the environment gives. */
  variables: Variables;
  /** Ends what the plugin has begun. */
  signal: AbortSignal;
  kind: FoundSection["kind"];
}

/** The same without the members that are undefined. */
const withoutUndefined = (made: unknown): unknown =>
  typeof made === "object" && made !== null
    ? Object.fromEntries(Object.entries(made).filter(([, value]) => value !== undefined))
    : made;

/** Calls the functions of a plugin with an account's section, and checks what they return. */
export async function makeCapabilities(
  plugin: Plugin,
  { id, section, path }: Account,
  options: MakeOptions,
): Promise<CheckedPlugin<Capabilities>> {
  try {
    const checked = checkSection(plugin, section, path, options.variables);
    if (!checked.ok) return checked;
    const context = createContext(
      id,
      checked.value,
      options.signal,
      options,
    ) as PluginContext<never>;
    const kinds = CAPABILITIES.filter((kind) => plugin[kind] !== undefined);
    const made = plugin.setup
      ? withoutUndefined(await plugin.setup(context))
      : Object.fromEntries(
          kinds.map((kind) => [
            kind,
            (plugin[kind] as (given: typeof context) => unknown)(context),
          ]),
        );
    const capabilities = checkCapabilities(made, path, checked.value);
    if (!capabilities.ok || !capabilities.value.channel || options.kind === "channels")
      return capabilities;
    return {
      ok: false,
      issues: [
        { path, message: '`setup` returns a channel: give the plugin `section: "channels"`' },
      ],
    };
  } catch (error) {
    return {
      ok: false,
      issues: [
        { path, message: `the plugin could not be set up: ${explain(error, options.baseDir)}` },
      ],
    };
  }
}
