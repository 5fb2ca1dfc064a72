import { resolve } from "node:path";
import { PRESET_NAME } from "../../config/schema/mapping.ts";
import { RouseError } from "../../core/errors.ts";
import { importOpenClaw, type ImportNote } from "../../operate/edits/import-openclaw.ts";
import { readOpenClawConfig } from "../../operate/edits/openclaw-config.ts";
import { doing } from "../command.ts";
import { usage } from "../failure.ts";
import { makeChange } from "./landing.ts";
import { LANDING_OPTIONS } from "../options.ts";
import { printBlock, printJson, printTable } from "../print.ts";

const VERDICTS: Record<ImportNote["verdict"], string> = {
  differs: "DIFFERS",
  missing: "NO COUNTERPART",
};

export const importCommand = doing({
  usage: "import <program> <file>",
  about:
    "turn the section `hooks` of a config of another program (openclaw) into a mapping file in shadow, and list what differs and what is missing; with --json nothing is written",
  examples: ["rouse import openclaw ~/.openclaw/openclaw.json"],
  options: {
    "--name <name>": {
      about: "the file's name, in hooks.mappingsDir",
      default: "openclaw",
    },
    ...LANDING_OPTIONS,
  },
  json: true,
  async run(io, options, program, file) {
    if (program !== "openclaw") throw usage(`"${program}": write openclaw`);
    if (!PRESET_NAME.test(options.name))
      throw usage(`"${options.name}": use lower-case letters, digits and "-"`);
    const source = resolve(io.cwd, file);
    const imported = importOpenClaw(readOpenClawConfig(source));
    if (!imported)
      throw new RouseError({
        code: "config_invalid",
        message: `${source} has no section \`hooks\` to import`,
      });
    const { mappings, settings, notes } = imported;
    // A patch has standard output for itself.
    const shown = options.patch ? { ...io, out: io.err } : io;
    if (!options.json) {
      printTable(
        shown,
        ["SETTING", "IN ROUSE", "NOTE"],
        notes.map(({ path, verdict, text }) => [path, VERDICTS[verdict], text]),
      );
      printBlock(
        shown,
        "settings for the section `hooks` of the config",
        JSON.stringify(settings, null, 2),
      );
    }
    const document = {
      id: options.name,
      version: 1,
      description: `The mappings of ${file}.`,
      mappings: mappings.map((mapping) => ({ ...mapping, shadow: true })),
    };
    if (options.json) return printJson(io, { document, settings, notes });
    if (mappings.length === 0) return io.out("\nthere are no mappings, so nothing was written\n");
    const text = `// Imported from OpenClaw. In shadow: \`rouse hooks enable <mapping>\` makes a mapping live.\n${JSON.stringify(document, null, 2)}\n`;
    const change = { kind: "file" as const, file: `${options.name}.json5`, text };
    shown.out("\n");
    await makeChange(change, "The mappings are in shadow: they start nothing", options, io);
  },
});
