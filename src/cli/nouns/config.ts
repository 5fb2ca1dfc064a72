import { renderIssue } from "../../config/issues.ts";
import type { Issue } from "../../core/errors.ts";
import { doing, type Noun } from "../command.ts";
import { configExitCode, usage } from "../failure.ts";
import { EXIT, type CliIo } from "../io.ts";
import { printJson } from "../print.ts";
import { toLoadOptions, toSnapshotOptions } from "../settings.ts";
import { plural } from "../../core/text.ts";

const KINDS = ["config", "mappings", "fixtures"] as const;

/** The JSON Schema of the config file, or of a file of `mappingsDir`, with the presets and plugins that ship. */
export async function schemaDocument(kind: (typeof KINDS)[number]): Promise<object> {
  const { configJsonSchema, fieldSchema, mappingFileJsonSchema } =
    await import("../../config/json-schema.ts");
  if (kind === "mappings") return mappingFileJsonSchema();
  if (kind === "fixtures")
    return fieldSchema((await import("../../operate/tests/fixture.ts")).fixtureSchema);
  const [
    { builtinSections },
    { BUILTIN_PLUGINS, readCatalog },
    { presetNames, PRESETS_DIR },
    { readProviders },
  ] = await Promise.all([
    import("../../plugin/sections.ts"),
    import("../../plugin/locations.ts"),
    import("../../mapping/presets.ts"),
    import("../../config/providers.ts"),
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

const validate = doing({
  usage: "validate",
  about: "check the config, its mappings, transforms and plugins; nothing is started",
  examples: ["rouse config validate -c ./rouse.json5", "rouse config validate --strict"],
  options: { "--strict": "exit with 1 if there are warnings" },
  json: true,
  async run(io, { json, strict, ...options }) {
    const { validateConfig } = await import("../../gateway/validate-config.ts");
    const result = await validateConfig(toSnapshotOptions(options, io));
    if (!result.ok) io.exitCode = configExitCode(result.issues);
    else if (strict && result.warnings.length > 0) io.exitCode = EXIT.failure;
    if (json) return printJson(io, result);
    if (!result.ok) return printIssues(result.issues, io);
    const { file = "The defaults", mappings, warnings, notLinted } = result;
    io.out(`${file}: fine, ${plural(mappings, "mapping")}.\n`);
    for (const warning of warnings) io.out(`warning: ${renderIssue(warning, io.cwd)}\n`);
    if (notLinted !== null) io.out(`not compared with recorded hooks: ${notLinted}\n`);
  },
});

const schema = doing({
  usage: "",
  about: "print the JSON Schema of the config file, for editors",
  examples: [
    "rouse config --schema > rouse.schema.json",
    "rouse config --schema mappings > mappings.schema.json",
    "rouse config --schema fixtures > fixtures.schema.json",
  ],
  options: {
    "--schema [of]":
      "print the JSON Schema of the config file, for editors; or that of mappings or fixtures, the files in hooks.mappingsDir and hooks.testsDir",
  },
  async run(io, { schema: of }) {
    const kind = of === true ? "config" : KINDS.find((known) => known === of);
    if (!kind) throw usage(`--schema ${of}: write ${KINDS.join(", ")}`);
    printJson(io, await schemaDocument(kind));
  },
});

const show = doing({
  usage: "",
  about: "show the config with all defaults; secrets are masked",
  examples: ["rouse config --json"],
  json: true,
  async run(io, options) {
    const [{ loadConfig }, { maskConfig }] = await Promise.all([
      import("../../config/load.ts"),
      import("../../config/mask.ts"),
    ]);
    const loaded = await loadConfig(toLoadOptions(options, io));
    if (loaded.ok) return printJson(io, maskConfig(loaded.config) as object);
    printIssues(loaded.issues, io);
    io.exitCode = configExitCode(loaded.issues);
  },
});

function printIssues(issues: readonly Issue[], io: CliIo): void {
  for (const issue of issues) io.err(`${renderIssue(issue, io.cwd)}\n`);
}

export const configCommand: Noun = {
  list: show,
  views: { "--schema [of]": schema },
  commands: [validate],
};
