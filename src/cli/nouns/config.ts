import { renderIssue } from "../../config/issues.ts";
import { maskConfig } from "../../config/mask.ts";
import { doing, type Noun } from "../command.ts";
import { configExitCode, usage } from "../failure.ts";
import { EXIT } from "../io.ts";
import { printJson } from "../print.ts";
import { schemaDocument, SCHEMAS } from "../init/schema-document.ts";
import { loadSettings, toSnapshotOptions } from "../settings.ts";
import { plural } from "../../core/text.ts";

const validate = doing({
  usage: "validate",
  about: "check the config, its mappings, transforms and plugins; nothing is started",
  examples: ["rouse config validate -c ./rouse.json5", "rouse config validate --strict"],
  options: { "--strict": "exit with 1 if there are warnings" },
  json: true,
  async run(io, { json, strict, ...options }) {
    const { checkSnapshot } = await import("../../gateway/validate-config.ts");
    const result = await checkSnapshot(toSnapshotOptions(options, io));
    if (!result.ok) io.exitCode = configExitCode(result.issues);
    else if (strict && result.warnings.length > 0) io.exitCode = EXIT.failure;
    if (json) return printJson(io, result);
    if (!result.ok)
      return result.issues.forEach((issue) => io.err(`${renderIssue(issue, io.cwd)}\n`));
    const { file = "The defaults", mappings, warnings } = result;
    io.out(`${file}: fine, ${plural(mappings, "mapping")}.\n`);
    for (const warning of warnings) io.out(`warning: ${renderIssue(warning, io.cwd)}\n`);
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
    const kind = of === true ? "config" : SCHEMAS.find((known) => known === of);
    if (!kind) throw usage(`--schema ${of}: write ${SCHEMAS.join(", ")}`);
    printJson(io, await schemaDocument(kind));
  },
});

const show = doing({
  usage: "",
  about: "show the config with all defaults; secrets are masked",
  examples: ["rouse config --json"],
  json: true,
  async run(io, options) {
    printJson(io, maskConfig((await loadSettings(options, io)).config) as object);
  },
});

export const configCommand: Noun = {
  list: show,
  views: { "--schema [of]": schema },
  commands: [validate],
};
