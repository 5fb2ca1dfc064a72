import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

/** The files of docs/library.md: each code block names its own in the first line. */
export const FILES = [
  ...readFileSync(resolve(import.meta.dirname, "../../docs/library.md"), "utf8").matchAll(
    /^```ts\n\/\/ (\S+)\n(.*?)^```/gms,
  ),
].map(([, name = "", text = ""]) => ({ name, text }));

/** Writes the files of the page, as they stand there, into a project. */
export function writePage(dir: string): void {
  for (const { name, text } of FILES) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
}
