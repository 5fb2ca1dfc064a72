import type { Command } from "commander";
import { renderIssue } from "../config/issues.ts";
import { configExitCode } from "./failure.ts";
import { SYSTEM, type CliIo } from "./io.ts";
import { addCommonOptions, reading, type CommonOptions } from "./options.ts";
import { printJson } from "./print.ts";

/** The JSON Schema of the config file, or of a file of `mappingsDir`, with the presets and plugins that ship. */
export async function schemaDocument(isMappingFile: boolean): Promise<object> {
  const { configJsonSchema, mappingFileJsonSchema } = await import("../config/json-schema.ts");
  if (isMappingFile) return mappingFileJsonSchema();
  const [{ BUILTIN_PLUGINS }, { builtinSections }, { readCatalog }, { presetNames, PRESETS_DIR }, { readProviders }] = await Promise.all([
    import("../gateway/snapshot.ts"),
    import("../plugin/sections.ts"),
    import("../plugin/locations.ts"),
    import("../mapping/presets.ts"),
    import("../config/providers.ts"),
  ]);
  const presets = [...presetNames(PRESETS_DIR), ...readCatalog(BUILTIN_PLUGINS).flatMap((entry) => entry.presets ?? [])];
  return configJsonSchema({
    presets: presets.toSorted(),
    providerTypes: readProviders(BUILTIN_PLUGINS).map(({ type }) => type),
    sections: await builtinSections(BUILTIN_PLUGINS),
  });
}

/** `rouse config validate|schema|show`. */
export function register(program: Command, io: CliIo): void {
  const config = program.command("config").description("check and show the config, or print its schema");

  reading(
    config.command("validate").description("check the config, its mappings, transforms and plugins; nothing is started"),
    "rouse config validate -c ./rouse.json5",
  ).action(async (options: CommonOptions) => {
    const { checkSnapshot } = await import("../gateway/snapshot.ts");
    const result = await checkSnapshot({
      ...SYSTEM,
      cwd: io.cwd,
      env: io.env,
      ...(options.config === undefined ? {} : { configFile: options.config }),
    });
    if (options.json) io.out(`${JSON.stringify(result, null, 2)}\n`);
    else if (result.ok) {
      io.out(`${result.file ?? "The defaults"}: fine, ${result.mappings} mapping${result.mappings === 1 ? "" : "s"}.\n`);
      for (const warning of result.warnings) io.out(`warning: ${renderIssue(warning, io.cwd)}\n`);
    } else for (const issue of result.issues) io.err(`${renderIssue(issue, io.cwd)}\n`);
    if (!result.ok) io.exitCode = configExitCode(result.issues);
  });

  addCommonOptions(
    config
      .command("schema")
      .description("print the JSON Schema of the config file, for editors")
      .option("--mappings", "that of the files in hooks.mappingsDir"),
    "rouse config schema > rouse.schema.json",
    "rouse config schema --mappings > mappings.schema.json",
  ).action(async (options: { mappings?: boolean }) => printJson(io, await schemaDocument(options.mappings === true)));

  reading(config.command("show").description("show the config with all defaults; secrets are masked"), "rouse config show --json").action(
    async (options: CommonOptions) => {
      const [{ loadConfig }, { maskConfig }] = await Promise.all([import("../config/load.ts"), import("../config/mask.ts")]);
      const loaded = await loadConfig({ cwd: io.cwd, env: io.env, ...(options.config === undefined ? {} : { file: options.config }) });
      if (loaded.ok) {
        io.out(`${JSON.stringify(maskConfig(loaded.config), null, 2)}\n`);
        return;
      }
      for (const issue of loaded.issues) io.err(`${renderIssue(issue, io.cwd)}\n`);
      io.exitCode = configExitCode(loaded.issues);
    },
  );
}
