/** Writes the pages that are made from schemas and data files; with `--check` only says whether they are up to date. */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { configReference } from "../src/config/document.ts";
import { presetReference } from "./preset-reference.ts";

const PAGES: Record<string, () => string> = { "config.md": configReference, "presets.md": presetReference };

for (const [name, make] of Object.entries(PAGES)) {
  const file = fileURLToPath(new URL(`../docs/${name}`, import.meta.url));
  if (!process.argv.includes("--check")) writeFileSync(file, make());
  else if (readFileSync(file, "utf8") !== make()) {
    console.error(`docs/${name} is stale: run \`npm run docs\``);
    process.exitCode = 1;
  }
}
