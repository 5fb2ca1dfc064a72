import type { Command } from "commander";
import { renderIssue } from "../config/issues.ts";
import { configExitCode } from "./failure.ts";
import { EXIT, SYSTEM, type CliIo } from "./io.ts";
import { addCommonOptions, reading, type CommonOptions } from "./options.ts";
import { printJson } from "./print.ts";

/** The JSON Schema of the config file, or of a file of `mappingsDir`, with the presets and plugins that ship. */
export async function schemaDocument(kind: "config" | "mappings" | "fixtures"): Promise<object> {
  const { configJsonSchema, fieldSchema, mappingFileJsonSchema } =
    await import("../config/json-schema.ts");
  if (kind === "mappings") return mappingFileJsonSchema();
  if (kind === "fixtures")
    return fieldSchema((await import("../operate/tests/fixture.ts")).fixtureSchema);
  const [
    { BUILTIN_PLUGINS },
    { builtinSections },
    { readCatalog },
    { presetNames, PRESETS_DIR },
    { readProviders },
  ] = await Promise.all([
    import("../gateway/snapshot.ts"),
    import("../plugin/sections.ts"),
    import("../plugin/locations.ts"),
    import("../mapping/presets.ts"),
    import("../config/providers.ts"),
  ]);
  const presets = [
    ...presetNames(PRESETS_DIR),
    ...readCatalog(BUILTIN_PLUGINS).flatMap((entry) => entry.presets ?? []),
  ];
  return configJsonSchema({
    presets: presets.toSorted(),
    providerTypes: readProviders(BUILTIN_PLUGINS).map(({ type }) => type),
    sections: await builtinSections(BUILTIN_PLUGINS),
  });
}

/** `rouse config validate|schema|show`. */
export function register(program: Command, io: CliIo): void {
  const config = program
    .command("config")
    .description("check and show the config, or print its schema");

  reading(
    config
      .command("validate")
      .description("check the config, its mappings, transforms and plugins; nothing is started")
      .option("--strict", "exit with 1 if there are warnings"),
    "rouse config validate -c ./rouse.json5",
    "rouse config validate --strict",
  ).action(async (options: CommonOptions & { strict?: boolean }) => {
    const { validateConfig } = await import("../gateway/validate-config.ts");
    const result = await validateConfig({
      ...SYSTEM,
      cwd: io.cwd,
      env: io.env,
      ...(options.config === undefined ? {} : { configFile: options.config }),
    });
    if (options.json) printJson(io, result);
    else if (result.ok) {
      io.out(
        `${result.file ?? "The defaults"}: fine, ${result.mappings} mapping${result.mappings === 1 ? "" : "s"}.\n`,
      );
      for (const warning of result.warnings) io.out(`warning: ${renderIssue(warning, io.cwd)}\n`);
      if (result.notLinted !== null)
        io.out(`not compared with recorded hooks: ${result.notLinted}\n`);
    } else for (const issue of result.issues) io.err(`${renderIssue(issue, io.cwd)}\n`);
    if (!result.ok) io.exitCode = configExitCode(result.issues);
    else if (options.strict && result.warnings.length > 0) io.exitCode = EXIT.failure;
  });

  addCommonOptions(
    config
      .command("schema")
      .description("print the JSON Schema of the config file, for editors")
      .option("--mappings", "that of the files in hooks.mappingsDir")
      .option("--fixtures", "of the files in hooks.testsDir instead"),
    "rouse config schema > rouse.schema.json",
    "rouse config schema --mappings > mappings.schema.json",
    "rouse config schema --fixtures > fixtures.schema.json",
  ).action(async (options: { mappings?: boolean; fixtures?: boolean }) =>
    printJson(
      io,
      await schemaDocument(
        options.mappings ? "mappings" : options.fixtures ? "fixtures" : "config",
      ),
    ),
  );

  reading(
    config.command("show").description("show the config with all defaults; secrets are masked"),
    "rouse config show --json",
  ).action(async (options: CommonOptions) => {
    const [{ loadConfig }, { maskConfig }] = await Promise.all([
      import("../config/load.ts"),
      import("../config/mask.ts"),
    ]);
    const loaded = await loadConfig({
      cwd: io.cwd,
      env: io.env,
      ...(options.config === undefined ? {} : { file: options.config }),
    });
    if (loaded.ok) {
      printJson(io, maskConfig(loaded.config) as object);
      return;
    }
    for (const issue of loaded.issues) io.err(`${renderIssue(issue, io.cwd)}\n`);
    io.exitCode = configExitCode(loaded.issues);
  });
}
