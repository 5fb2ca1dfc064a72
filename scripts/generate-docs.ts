/** Writes what is made from schemas and data files into the pages; with `--check` only says whether they are up to date. */
import { readFileSync, writeFileSync } from "node:fs";
import { generatedPages } from "./pages.ts";

for (const { name, file, text } of await generatedPages()) {
  if (!process.argv.includes("--check")) writeFileSync(file, text);
  else if (readFileSync(file, "utf8") !== text) {
    console.error(`docs/${name} is stale: run \`npm run docs\``);
    process.exitCode = 1;
  }
}
