import { existsSync } from "node:fs";
import { join } from "node:path";

const toFileName = (text: string): string => text.replace(/[^\w.-]+/g, "-").replace(/^[.-]+|[.-]+$/g, "") || "event";

/** The folder for the fixtures of a hook, below `hooks.testsDir`. */
export const getFixtureFolder = (testsDir: string, path: string): string => join(testsDir, ...path.split("/").map(toFileName));

/** A name that no file of the folder has, and none of `taken`: `base`, with a number if needed. */
export function chooseFixtureName(folder: string, base: string, taken: ReadonlySet<string> = new Set()): string {
  const first = toFileName(base);
  for (let count = 1; ; count++) {
    const name = count === 1 ? first : `${first}-${count}`;
    const file = join(folder, `${name}.json5`);
    if (!existsSync(file) && !taken.has(file)) return name;
  }
}
