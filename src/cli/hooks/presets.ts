import { readFileSync } from "node:fs";
import { getPresetName } from "../../config/schema/preset.ts";
import { didYouMean } from "../../config/suggest.ts";
import { ambiguous } from "../../mapping/catalog.ts";
import type { PresetEntry } from "../../mapping/source.ts";
import { loadScheme, type SchemeSources } from "../../intake/signatures/load.ts";
import { renderSender } from "../../intake/signatures/sender.ts";
import { answering, printRows, type Noun } from "../command.ts";
import { noSuch, usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import type { CommonOptions } from "../options.ts";
import { findUsable } from "../settings.ts";
import { loadPresets } from "./find-presets.ts";

type Sender = Parameters<typeof renderSender>[0];

/** The parts of a preset's document that lists show. The document may be unchecked, so any part may be missing. */
interface Preset {
  description?: string;
  auth?: { scheme?: string | { sender?: Sender }; token?: unknown; user?: unknown };
  mappings?: { id?: string; match?: { path?: string | string[] } }[];
}

/** The presets that the config of this folder can enable. Without a config that can be read: those that ship. */
async function findPresets(options: CommonOptions, io: CliIo) {
  const user = await findUsable(options, io);
  const { files, presets, schemes } = await loadPresets(user);
  const enabled = user?.config.hooks.presets.map(getPresetName) ?? [];
  // A mappings file that nothing enables is no preset.
  const plain = new Set<PresetEntry>(
    files.filter(({ name, isPreset }) => !isPreset && !enabled.includes(name)),
  );
  const find = (name: string): PresetEntry[] =>
    presets.get(name)?.filter((entry) => !plain.has(entry)) ?? [];
  return {
    names: [...presets.keys()].filter((name) => find(name).length > 0).toSorted(),
    find,
    schemes,
  };
}

function readDocument(entry: PresetEntry): Preset {
  const parsed = entry.read();
  return parsed.ok ? (parsed.value as Preset) : { description: `(its file ${parsed.message})` };
}

function getSignature({ auth }: Preset): string | null {
  if (auth?.scheme === undefined) return null;
  return typeof auth.scheme === "string" ? auth.scheme : "its own";
}

function describeCallers(preset: Preset): string {
  if (preset.auth?.token !== undefined) return "its own token";
  return preset.auth?.user === undefined ? (getSignature(preset) ?? "hook token") : "password";
}

const list = answering({
  usage: "",
  about: "the presets that ship, your own, and those of your plugins",
  examples: ["rouse presets"],
  async answer(io, options) {
    const { names, find } = await findPresets(options, io);
    const presets = names.flatMap(find).map((entry) => {
      const preset = readDocument(entry);
      return {
        name: entry.name,
        origin: entry.origin,
        path: [preset.mappings?.[0]?.match?.path ?? ""].flat().join(", "),
        callers: describeCallers(preset),
        signature: getSignature(preset),
        mappings: preset.mappings?.map(({ id }) => id ?? null) ?? [],
        description: preset.description ?? "",
      };
    });
    return { presets };
  },
  print: ({ presets }, io) =>
    printRows(
      io,
      [
        ["preset", ({ name }) => name],
        "origin",
        "path",
        ["signature", ({ callers }) => callers],
        ["what it makes", ({ description }) => description],
      ],
      presets,
    ),
});

/** The behaviour of a preset's sender on errors, from its scheme. */
function getSender({ auth }: Preset, name: string, schemes: SchemeSources): Sender | undefined {
  if (typeof auth?.scheme !== "string") return auth?.scheme?.sender;
  const loaded = loadScheme(schemes, auth.scheme, name);
  return loaded.ok ? loaded.scheme.sender : undefined;
}

const show = answering({
  usage: "<name>",
  about:
    "print a preset, to be copied into mappings/ and changed, and what its sender does about errors",
  examples: ["rouse presets NAME"],
  async answer(io, options, name) {
    const { names, find, schemes } = await findPresets(options, io);
    const [entry, ...others] = find(name);
    if (!entry)
      throw noSuch(
        `there is no preset "${name}"; \`rouse presets\` lists them.${didYouMean(name, names)}`,
      );
    if (others.length > 0) throw usage(ambiguous(name, [entry, ...others]));
    const preset = readDocument(entry);
    const sender = getSender(preset, name, schemes);
    const { file, origin } = entry;
    const text =
      file === undefined ? `${JSON.stringify(preset, null, 2)}\n` : readFileSync(file, "utf8");
    return { origin, preset, sender: sender ?? null, text };
  },
  print({ text, sender }, io) {
    // Mapping files are JSON5: with comments after it, the preset can still be copied as it is.
    const comments = sender ? renderSender(sender).map((line) => `// ${line}\n`) : [];
    io.out(text + comments.join(""));
  },
});

export const presetsCommand: Noun = { list, show };
