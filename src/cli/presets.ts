import { existsSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "commander";
import { PRESET_NAME } from "../config/schema/mapping.ts";
import type { Sender } from "../config/schema/signature.ts";
import { didYouMean } from "../config/suggest.ts";
import { RouseError } from "../core/errors.ts";
import { draftPreset } from "../mapping/draft-preset.ts";
import { PRESETS_DIR, presetNames } from "../mapping/presets.ts";
import { loadScheme } from "../signatures/load.ts";
import { renderSender } from "../signatures/sender.ts";
import { connected } from "./connect.ts";
import { usage } from "./failure.ts";
import { resolveId } from "./ids.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printJson, printTable } from "./print.ts";
import { loadSettings } from "./settings.ts";

interface NewOptions extends CommonOptions {
  event?: string;
  path?: string;
}

interface Preset {
  description: string;
  auth?: { scheme: string };
  mappings: { id: string; match: { path: string } }[];
}

const textOf = (name: string): string => readFileSync(join(PRESETS_DIR, `${name}.json`), "utf8");

function list(options: CommonOptions, io: CliIo): void {
  const presets = presetNames(PRESETS_DIR).map((name) => {
    const { description, auth, mappings } = JSON.parse(textOf(name)) as Preset;
    return {
      name,
      path: mappings[0]?.match.path ?? "",
      signature: auth?.scheme ?? null,
      mappings: mappings.map(({ id }) => id),
      description,
    };
  });
  if (options.json) return printJson(io, { presets });
  const rows = presets.map(({ name, path, signature, description }) => [name, path, signature ?? "hook token", description]);
  printTable(io, ["PRESET", "PATH", "SIGNATURE", "WHAT IT MAKES"], rows);
}

/** What the sender of a preset's scheme does about errors. */
function senderOf(name: string): Sender | undefined {
  const { auth } = JSON.parse(textOf(name)) as Preset;
  const loaded = auth && loadScheme(join(PRESETS_DIR, "schemes"), auth.scheme, name);
  return loaded?.ok ? loaded.scheme.sender : undefined;
}

function show(name: string, options: CommonOptions, io: CliIo): void {
  const names = presetNames(PRESETS_DIR);
  if (!names.includes(name)) throw usage(`there is no preset "${name}".${didYouMean(name, names)}`);
  const sender = senderOf(name);
  if (options.json) return printJson(io, { preset: JSON.parse(textOf(name)) as Preset, sender: sender ?? null });
  // Mapping files are JSON5: with comments after it, the preset can still be copied as it is.
  const comments = sender ? renderSender(sender).map((line) => `// ${line}\n`) : [];
  io.out(textOf(name) + comments.join(""));
}

async function create(name: string, options: NewOptions, io: CliIo): Promise<void> {
  if (!PRESET_NAME.test(name)) throw usage(`"${name}": use lower-case letters, digits and "-"`);
  if (options.event === undefined)
    throw usage("name an event to begin with: --event evt_… (`rouse events list --outcome unmatched` shows some)");
  const { config } = await loadSettings(options, io);
  const { event } = await connected(options, io, async (to) =>
    to.request("event", "GET", `events/${await resolveId(to, "events", options.event ?? "")}`),
  );
  const { body, encoding } = event.request;
  if (body === null) throw new RouseError({ code: "not_found", message: "the body of this event is no longer kept (hooks.retention)" });
  let payload: unknown;
  try {
    payload = encoding === "utf8" ? JSON.parse(body) : undefined;
  } catch {
    payload = undefined;
  }
  if (payload === undefined) throw new RouseError({ code: "invalid_json", message: "only an event whose body is JSON can be begun with" });
  const file = join(config.hooks.mappingsDir, `${name}.json`);
  if (existsSync(file)) throw new RouseError({ code: "usage", message: `${file} is there already; name another, or edit it` });
  const draft = draftPreset(name, options.path ?? event.path, payload);
  await mkdir(config.hooks.mappingsDir, { recursive: true });
  await writeFile(file, `${JSON.stringify(draft, null, 2)}\n`);
  if (options.json) return printJson(io, { file, draft });
  io.out(
    `The draft is not live: with \`shadow\` and \`continue\` it records what it would do, does nothing, and leaves the event to other mappings.\n` +
      `Wrote ${file}\n\nRead it, keep what matters, and look at what it makes:\n  rouse events replay ${event.id} --dry-run\n` +
      `Then remove \`shadow\` and \`continue\` to let it run.\n`,
  );
}

export function registerPresets(program: Command, io: CliIo): void {
  const presets = program.command("presets").description("mappings that ship, and new ones from what came in");
  reading(presets.command("list").description("the presets that ship"), "rouse presets list").action((options: CommonOptions) =>
    list(options, io),
  );
  reading(
    presets
      .command("show <name>")
      .description("print a preset, to be copied into mappings/ and changed, and what its sender does about errors"),
    "rouse presets show NAME",
  ).action((name: string, options: CommonOptions) => show(name, options, io));
  reading(
    presets
      .command("new <name>")
      .description("draft a mapping file from an event that has come in; the draft is not live")
      .option("--event <id>", "the event to begin with")
      .option("--path <path>", "the hook's path; default the event's"),
    "rouse presets new acme --event evt_…",
  ).action((name: string, options: NewOptions) => create(name, options, io));
}
