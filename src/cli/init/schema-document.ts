import { configJsonSchema, fieldSchema, mappingFileJsonSchema } from "../../config/json-schema.ts";
import { readProviders } from "../../config/providers.ts";
import { listJson } from "../../core/files.ts";
import { PRESETS_DIR } from "../../mapping/presets.ts";
import { BUILTIN_PLUGINS, readCatalog } from "../../plugin/locations.ts";
import { builtinSections } from "../../plugin/sections.ts";

/** The documents that have a schema for editors. */
export const SCHEMAS = ["config", "mappings", "fixtures"] as const;

/** The JSON Schema of the config file, or of a file of `mappingsDir`, with the presets and plugins that ship. */
export async function schemaDocument(kind: (typeof SCHEMAS)[number]): Promise<object> {
  if (kind === "mappings") return mappingFileJsonSchema();
  if (kind === "fixtures")
    return fieldSchema((await import("../../operate/tests/fixture.ts")).fixtureSchema);
  const presets = [
    ...listJson(PRESETS_DIR),
    ...readCatalog(BUILTIN_PLUGINS).flatMap((entry) => entry.presets ?? []),
  ];
  return configJsonSchema({
    presets: presets.toSorted(),
    providerTypes: readProviders(BUILTIN_PLUGINS).map(({ type }) => type),
    sections: await builtinSections(BUILTIN_PLUGINS),
  });
}
