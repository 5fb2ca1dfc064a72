import { hooksKeys } from "../config/schema/hooks.ts";
import type { Config } from "../config/schema/index.ts";
import { getPresetName } from "../config/schema/preset.ts";
import type { CatalogEntry } from "./locations.ts";
import { noneConfigured, type Sections } from "./sections.ts";

/** Whether the config needs one of Rouse's own plugins: only these are loaded. */
export function isNeeded(
  id: string,
  entry: CatalogEntry | undefined,
  { config, print }: { config: Config; print?: unknown },
  { sections, usedProviders }: { sections: Sections; usedProviders: ReadonlySet<string> },
): boolean {
  const { channels, hooks, plugins } = sections;
  if (
    channels[id] !== undefined ||
    plugins[id] !== undefined ||
    (!(id in hooksKeys) && hooks[id] !== undefined)
  )
    return true;
  const { presets = [], providers = [], protocols = [], enabledByDefault } = entry ?? {};
  if (config.hooks.presets.some((use) => presets.includes(getPresetName(use)))) return true;
  if (providers.some((type) => usedProviders.has(type))) return true;
  if (protocols.some((protocol) => config.store.url?.startsWith(`${protocol}:`))) return true;
  return enabledByDefault === true && print !== undefined && noneConfigured(sections);
}
