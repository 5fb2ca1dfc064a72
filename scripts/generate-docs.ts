/** Writes docs/config.md from the schemas; with `--check` only says whether it is up to date. */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { configReference } from "../src/config/document.ts";

const file = fileURLToPath(new URL("../docs/config.md", import.meta.url));
const text = configReference();
if (process.argv.includes("--check")) {
  if (readFileSync(file, "utf8") !== text) {
    console.error("docs/config.md is stale: run `npm run docs`");
    process.exitCode = 1;
  }
} else writeFileSync(file, text);
