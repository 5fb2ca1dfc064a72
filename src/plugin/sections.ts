import { pathToFileURL } from "node:url";
import type { SchemaParts } from "../config/json-schema.ts";
import { checkPlugin } from "./check.ts";
import { builtinSources } from "./sources.ts";

/** Loads the schemas of the sections of Rouse's own plugins. */
export async function builtinSections(builtinDir: string): Promise<SchemaParts["sections"]> {
  const found = await Promise.all(
    builtinSources(builtinDir).map(async ({ path, file }) => {
      const checked = checkPlugin((await import(pathToFileURL(file).href)) as Record<string, unknown>, path);
      if (!checked.ok || !checked.value.config) return [];
      const { id, section = "channels", config: schema } = checked.value;
      return [{ id, section, schema }];
    }),
  );
  return found.flat();
}
