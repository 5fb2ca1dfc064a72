import type { Command } from "commander";
import { renderIssue } from "../config/issues.ts";
import { EXIT, type CliIo } from "./io.ts";
import { common, reading, type CommonOptions } from "./options.ts";

/** `rouse config validate|schema|show`. */
export function registerConfig(program: Command, io: CliIo): void {
  const config = program.command("config").description("check and show the config, or print its schema");

  reading(
    config.command("validate").description("check the config, its mappings, transforms and plugins; nothing is started"),
    "rouse config validate -c ./rouse.json5",
  ).action(async (options: CommonOptions) => {
    const { checkSnapshot } = await import("../snapshot.ts");
    const result = await checkSnapshot({
      cwd: io.cwd,
      env: io.env,
      ...(options.config === undefined ? {} : { configFile: options.config }),
    });
    if (options.json) io.out(`${JSON.stringify(result, null, 2)}\n`);
    else if (result.ok) {
      io.out(`${result.file ?? "The defaults"}: fine, ${result.mappings} mapping${result.mappings === 1 ? "" : "s"}.\n`);
      for (const warning of result.warnings) io.out(`warning: ${renderIssue(warning, io.cwd)}\n`);
    } else for (const issue of result.issues) io.err(`${renderIssue(issue, io.cwd)}\n`);
    if (!result.ok) io.exitCode = EXIT.config;
  });

  common(
    config.command("schema").description("print the JSON Schema of the config file, for editors"),
    "rouse config schema > rouse.schema.json",
  ).action(async () => {
    const { configJsonSchema } = await import("../config/document.ts");
    io.out(`${JSON.stringify(configJsonSchema(), null, 2)}\n`);
  });

  reading(config.command("show").description("show the config with all defaults; secrets are masked"), "rouse config show --json").action(
    async (options: CommonOptions) => {
      const [{ loadConfig }, { maskConfig }] = await Promise.all([import("../config/load.ts"), import("../config/mask.ts")]);
      const loaded = await loadConfig({ cwd: io.cwd, env: io.env, ...(options.config === undefined ? {} : { file: options.config }) });
      if (loaded.ok) {
        io.out(`${JSON.stringify(maskConfig(loaded.config), null, 2)}\n`);
        return;
      }
      for (const issue of loaded.issues) io.err(`${renderIssue(issue, io.cwd)}\n`);
      io.exitCode = EXIT.config;
    },
  );
}
