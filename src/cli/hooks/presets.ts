import { readFileSync } from "node:fs";
import { getPresetName } from "../../config/schema/preset.ts";
import { didYouMean } from "../../config/suggest.ts";
import { ambiguous } from "../../mapping/catalog.ts";
import type { PresetEntry } from "../../mapping/source.ts";
import { answering, type Noun } from "../command.ts";
import { printRows } from "../print.ts";
import { noSuch, usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import type { CommonOptions } from "../options.ts";
import { findUsable } from "../settings.ts";
import { loadPresets } from "./find-presets.ts";

/** The parts of a preset's document that lists show. The document may be unchecked, so any part may be missing. */
interface Preset {
  description?: string;
  auth?: { scheme?: unknown; token?: unknown; user?: unknown };
  mappings?: { id?: string; match?: { path?: string | string[] } }[];
}

/** The presets that the config of this folder can enable. Without a config that can be read: those that ship. */
async function findPresets(options: CommonOptions, io: CliIo) {
  const user = await findUsable(options, io);
  const { files, presets } = await loadPresets(user);
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

const show = answering({
  usage: "<name>",
  about: "print a preset, to be copied into mappings/ and changed",
  examples: ["rouse presets NAME"],
  async answer(io, options, name) {
    const { names, find } = await findPresets(options, io);
    const [entry, ...others] = find(name);
    if (!entry)
      throw noSuch(
        `there is no preset "${name}"; \`rouse presets\` lists them.${didYouMean(name, names)}`,
      );
    if (others.length > 0) throw usage(ambiguous(name, [entry, ...others]));
    const preset = readDocument(entry);
    const { file, origin } = entry;
    const text =
      file === undefined ? `${JSON.stringify(preset, null, 2)}\n` : readFileSync(file, "utf8");
    return { origin, preset, text };
  },
  print: ({ text }, io) => io.out(text),
});

export const presetsCommand: Noun = { list, show };
