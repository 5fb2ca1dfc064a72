import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { PRESET_NAME } from "../config/schema/mapping.ts";
import { RouseError } from "../core/errors.ts";
import { replaceFile } from "../core/replace-file.ts";
import { importOpenClaw, type ImportNote } from "../workbench/import-openclaw.ts";
import { readOpenClawConfig } from "../workbench/openclaw-config.ts";
import { usage } from "./failure.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printBlock, printJson, printTable } from "./print.ts";
import { loadSettings } from "./settings.ts";

interface ImportOptions extends CommonOptions {
  name: string;
  force?: boolean;
}

const VERDICTS: Record<ImportNote["verdict"], string> = {
  equal: "equal",
  differs: "DIFFERS",
  missing: "NO COUNTERPART",
};

async function importFile(file: string, options: ImportOptions, io: CliIo): Promise<void> {
  if (!PRESET_NAME.test(options.name))
    throw usage(`"${options.name}": use lower-case letters, digits and "-"`);
  const source = resolve(io.cwd, file);
  const { mappings, settings, notes } = importOpenClaw(readOpenClawConfig(source));
  if (notes.length === 0)
    throw new RouseError({
      code: "config_invalid",
      message: `${source} has no section \`hooks\` to import`,
    });
  const { config } = await loadSettings(options, io);
  const folder = join(config.hooks.mappingsDir, "drafts");
  const draft = join(folder, `${options.name}.json5`);
  if (existsSync(draft) && options.force !== true)
    throw usage(`${draft} is there already; use another --name, or --force to replace it`);
  const document = {
    id: options.name,
    version: 1,
    description: `The mappings of ${file}.`,
    mappings,
  };
  if (mappings.length > 0) {
    await replaceFile(
      draft,
      `// Imported from OpenClaw. A draft is not live.\n${JSON.stringify(document, null, 2)}\n`,
    );
  }
  if (options.json)
    return printJson(io, {
      file: mappings.length > 0 ? draft : null,
      draft: document,
      settings,
      notes,
    });
  printTable(
    io,
    ["SETTING", "IN ROUSE", "NOTE"],
    notes.map(({ path, verdict, text }) => [path, VERDICTS[verdict], text]),
  );
  printBlock(
    io,
    "settings for the section `hooks` of the config",
    JSON.stringify(settings, null, 2),
  );
  if (mappings.length === 0) return io.out("\nthere are no mappings, so no draft was written\n");
  io.out(
    `\nWrote the draft ${draft}; it is not live. Compare it with what came in, then accept it:\n`,
  );
  io.out(`  rouse drafts diff ${options.name}\n  rouse drafts accept ${options.name}\n`);
}

export function register(program: Command, io: CliIo): void {
  const command = program
    .command("import")
    .description("take the webhooks of another program over, as a draft");
  reading(
    command
      .command("openclaw <file>")
      .description(
        "turn the section `hooks` of an OpenClaw config into a draft, and list what is equal, what differs and what is missing",
      )
      .option("--name <name>", "the draft's name", "openclaw")
      .option("--force", "replace a draft of this name"),
    "rouse import openclaw ~/.openclaw/openclaw.json",
  ).action((file: string, options: ImportOptions) => importFile(file, options, io));
}
