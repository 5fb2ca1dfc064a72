import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { MappingFile } from "../config/schema/mapping.ts";
import { fileInside } from "../core/files.ts";
import { compilePaths } from "./paths.ts";
import { collectSources } from "./sources.ts";
import type { PathRules } from "./types.ts";

/** A request body that a sender posts, kept beside the preset that takes it. */
export interface Sample {
  contentType: string;
  /** The event as the sender's headers name it. */
  event: string;
  body: string;
}

const folderOf = (presetsDir: string, preset: string): string => join(presetsDir, "samples", preset);

/** The names of a preset's samples: its events. */
export function sampleNames(presetsDir: string, preset: string): string[] {
  const folder = folderOf(presetsDir, preset);
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .map((name) => name.slice(0, -".json".length))
    .toSorted();
}

/** Reads a sample by its name; undefined if the preset has none of this name. */
export function readSample(presetsDir: string, preset: string, name: string): Sample | undefined {
  if (!sampleNames(presetsDir, preset).includes(name)) return undefined;
  const text = readFileSync(join(folderOf(presetsDir, preset), `${name}.json`), "utf8");
  const { body, event = name, contentType = "application/json" } = JSON.parse(text) as Partial<Sample> & { body: unknown };
  return { event, contentType, body: typeof body === "string" ? body : JSON.stringify(body) };
}

/** What a preset's file says of its sender; undefined if there is no such preset or it says nothing. */
export function presetSetup(presetsDir: string, preset: string): MappingFile["setup"] {
  const found = fileInside(presetsDir, `${preset}.json`);
  return found.ok ? (JSON.parse(readFileSync(found.file, "utf8")) as Pick<MappingFile, "setup">).setup : undefined;
}

/** The headers by which a preset's sender names an event; undefined if it names events in the body alone. */
export function eventHeaders(presetsDir: string, preset: string, event: string): Record<string, string> | undefined {
  const named = presetSetup(presetsDir, preset)?.eventHeaders;
  if (!named) return undefined;
  const kind = event.split(".")[0] ?? event;
  return Object.fromEntries(
    Object.entries(named).map(([name, text]) => [name, text.replaceAll("{event}", event).replaceAll("{kind}", kind)]),
  );
}

/** Finds who owns a hook's path: its rules, undefined if no mapping has the path, and the preset whose mappings are on it. */
export function findPath(
  path: string,
  options: Parameters<typeof collectSources>[0],
): { rules: PathRules | undefined; preset: string | undefined } {
  const { sources } = collectSources(options);
  const { rules } = compilePaths(sources, options.hooks.maxBodyBytes);
  const own = sources.filter(({ config }) => [config.match.path ?? []].flat().includes(path));
  const origin = own.find(({ origin: name }) => name.startsWith("preset:"))?.origin.slice("preset:".length);
  const { auth } = rules.get(path) ?? {};
  // A preset that was copied into a mapping file keeps its scheme, whose name is the preset's.
  const scheme = auth && "scheme" in auth && typeof auth.scheme === "string" ? auth.scheme : undefined;
  return { rules: rules.get(path), preset: origin ?? scheme };
}
