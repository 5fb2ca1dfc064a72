import type { Variables } from "../config/environment.ts";
import type { PluginContext } from "../contract/channel.ts";
import { checkSection, refusePlugin, type CheckedPlugin } from "./check.ts";
import { CAPABILITIES, checkCapabilities } from "./check-capabilities.ts";
import { createContext, type PluginEnvironment } from "./context.ts";
import type { Capabilities, Plugin } from "../contract/define.ts";
import { explain } from "./import.ts";
import type { Issue } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import type { FoundSection, Section } from "./sections.ts";

/** One of several of a kind: what is set for it, and where. */
export interface Account {
  id: string;
  /** Another name of the channel. */
  alias?: string;
  section: Section;
  path: string;
}

const NAME = /^[a-z0-9][a-z0-9-]{0,39}$/;

/**
 * The accounts of a channel, from `accounts: { <name>: { … } }` in its section: the section's other settings apply to all. The
 * first account is the channel that the plugin's id means, each further one is `<id>:<name>`. Without `accounts` the section is the account.
 */
export function parseAccounts(
  id: string,
  { kind, path }: FoundSection,
  section: Section,
): { accounts: Account[]; issues: Issue[] } {
  const { accounts, ...shared } = section;
  if (kind !== "channels" || accounts === undefined)
    return { accounts: [{ id, section, path }], issues: [] };
  if (!isRecord(accounts) || Object.keys(accounts).length === 0)
    return {
      accounts: [],
      issues: [
        { path: `${path}.accounts`, message: "must be an object with a section for each account" },
      ],
    };
  const issues: Issue[] = [];
  const made = Object.entries(accounts).map(([name, own], index): Account => {
    const at = `${path}.accounts.${name}`;
    if (!NAME.test(name))
      issues.push({ path: at, message: "name it with lower-case letters, digits and `-`" });
    if (!isRecord(own))
      issues.push({ path: at, message: "must be an object with the account's settings" });
    const account = { section: { ...shared, ...(isRecord(own) ? own : {}) }, path: at };
    return index === 0
      ? { id, alias: `${id}:${name}`, ...account }
      : { id: `${id}:${name}`, ...account };
  });
  return { accounts: issues.length > 0 ? [] : made, issues };
}

export interface MakeOptions extends PluginEnvironment {
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
    return refusePlugin(path, '`setup` returns a channel: give the plugin `section: "channels"`');
  } catch (error) {
    return refusePlugin(path, `the plugin could not be set up: ${explain(error, options.baseDir)}`);
  }
}
