/** Reads the recorded bodies in test/fixtures/recorded and the list of their sources. */
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const RECORDED = fileURLToPath(new URL("../test/fixtures/recorded", import.meta.url));

/** An entry of SOURCES.json. Its bodies are the JSON files in `<sender>/<id>`, or the examples that `modules` export. */
export interface RecordedSource {
  id: string;
  /** The preset that takes the bodies. */
  sender: string;
  /** The project or program that published the bodies. */
  title: string;
  /** The package or program that has the bodies, with its version. */
  origin: string;
  paths: string;
  url: string;
  /** An SPDX identifier. */
  licence: string;
  copyright: string;
  /** The way in which a body was extracted, if its source does not have it as a JSON file. */
  extraction?: string;
  /** Modules that export the bodies as examples, instead of files. */
  modules?: string[];
}

export interface RecordedBody {
  name: string;
  text: string;
}

interface ModuleExample {
  name: string;
  examples: object[];
}

/** Reads SOURCES.json. */
export function readSources(): RecordedSource[] {
  const { sources } = JSON.parse(readFileSync(join(RECORDED, "SOURCES.json"), "utf8")) as {
    sources: RecordedSource[];
  };
  return sources;
}

/** Reads the bodies of a source as they were published, in the order of their names. */
export function readBodies({ sender, id, modules }: RecordedSource): RecordedBody[] {
  if (modules !== undefined) return readModules(modules);
  const folder = join(RECORDED, sender, id);
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".json"))
    .toSorted()
    .map((name) => ({
      name: name.slice(0, -".json".length),
      text: readFileSync(join(folder, name), "utf8"),
    }));
}

/** Reads the examples of modules; an example that several modules have counts once. */
function readModules(modules: readonly string[]): RecordedBody[] {
  const bodies = new Map<string, RecordedBody>();
  for (const module of modules) {
    for (const { name, examples } of createRequire(import.meta.url)(module) as ModuleExample[]) {
      for (const [index, example] of examples.entries()) {
        const text = JSON.stringify(example);
        if (!bodies.has(text)) bodies.set(text, { name: `${module}: ${name} ${index + 1}`, text });
      }
    }
  }
  return [...bodies.values()];
}
