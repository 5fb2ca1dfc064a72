import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { MappingFile } from "../config/schema/mapping.ts";
import { listJson } from "../core/files.ts";
import { parseJson, writeJson } from "../core/json.ts";
import type { PresetEntry } from "./source.ts";

/** A request body that a sender posts. */
export interface Sample {
  contentType: string;
  /** The event as the sender's headers name it. */
  event: string;
  body: string;
}

/** Reads the document of a preset without its mappings. It may not have been checked. */
function readDocument({ read }: PresetEntry): Pick<MappingFile, "setup" | "samples"> {
  const parsed = read();
  return parsed.ok ? (parsed.value as Pick<MappingFile, "setup" | "samples">) : {};
}

/** The folder with a preset's samples, beside the preset. */
const getFolder = ({ folder, name }: PresetEntry): string => join(folder, "samples", name);

/** The names of a preset's samples: those in its document, and those in files. */
export function sampleNames(entry: PresetEntry): string[] {
  const own = Object.keys(readDocument(entry).samples ?? {});
  return [...own, ...listJson(getFolder(entry))].toSorted();
}

/** Reads a sample by its name; undefined if the preset has none of this name. */
export function readSample(entry: PresetEntry, name: string): Sample | undefined {
  if (!sampleNames(entry).includes(name)) return undefined;
  const own = readDocument(entry).samples?.[name];
  const sample =
    own ??
    (parseJson(readFileSync(join(getFolder(entry), `${name}.json`), "utf8")) as NonNullable<
      typeof own
    >);
  const { body, event = name, contentType = "application/json" } = sample;
  return { event, contentType, body: typeof body === "string" ? body : writeJson(body) };
}

/** Returns what a preset says of its sender; undefined if it says nothing. */
export const presetSetup = (entry: PresetEntry): MappingFile["setup"] => readDocument(entry).setup;

/** The headers by which a preset's sender names an event; undefined if it names events in the body alone. */
export function eventHeaders(
  entry: PresetEntry,
  event: string,
): Record<string, string> | undefined {
  const named = presetSetup(entry)?.eventHeaders;
  if (!named) return undefined;
  const kind = event.split(".")[0] ?? event;
  return Object.fromEntries(
    Object.entries(named).map(([name, text]) => [
      name,
      text.replaceAll("{event}", event).replaceAll("{kind}", kind),
    ]),
  );
}
