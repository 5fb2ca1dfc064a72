/** The list of Rouse's own plugins, from the plugins: what has to be known of them before they are loaded. */
import { existsSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Plugin } from "../src/plugin/api.ts";
import type { CatalogEntry } from "../src/plugin/locations.ts";

export const PLUGINS = fileURLToPath(new URL("../plugins/", import.meta.url));

/** Imports one of Rouse's own plugins. */
export async function importPlugin(id: string): Promise<Plugin> {
  const { default: plugin } = (await import(`${PLUGINS}${id}/index.ts`)) as { default: Plugin };
  return plugin;
}

/** The members that offer something; lists that are empty are left out. */
function listed(lists: Record<string, readonly string[] | undefined>): Partial<CatalogEntry> {
  return Object.fromEntries(
    Object.entries(lists).filter(([, list]) => list !== undefined && list.length > 0),
  );
}

function toEntry({
  id,
  aliases,
  section,
  channel,
  enabledByDefault,
  setupQuestions,
  ...offers
}: Plugin): CatalogEntry {
  const { commands, presets, providers, extractors } = offers;
  const place = section ?? (channel ? "channels" : "plugins");
  return {
    id,
    ...listed({
      aliases,
      commands: Object.keys(commands ?? {}),
      presets: presets?.map((preset) => preset.id),
      providers: providers?.map(({ type }) => type),
      extensions: extractors?.flatMap(({ extensions }) => extensions),
    }),
    ...(place !== "channels" && { section: place }),
    ...(enabledByDefault && { enabledByDefault }),
    ...(setupQuestions && { setupQuestions }),
  };
}

/** The ids of Rouse's own plugins. */
export const listPlugins = (): string[] =>
  readdirSync(PLUGINS).filter((name) => existsSync(`${PLUGINS}${name}/index.ts`));

/** Renders plugins/catalog.json, by id. */
export async function pluginCatalog(): Promise<string> {
  const plugins = await Promise.all(listPlugins().map(importPlugin));
  const entries = plugins.map(toEntry).toSorted((a, b) => a.id.localeCompare(b.id));
  return `${JSON.stringify(entries, null, 2)}\n`;
}
