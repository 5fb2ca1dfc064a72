import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { RouseError } from "../core/errors.ts";
import { chooseFixtureName, getFixtureFolder } from "./fixture-files.ts";
import { renderFixture, type FixtureFile } from "./fixture.ts";

const usage = (message: string): RouseError => new RouseError({ code: "usage", message });

/** @throws RouseError `usage` if a file cannot have this name. */
export function checkName(name: string): string {
  if (/^\w[\w.-]*$/.test(name)) return name.replace(/\.json5?$/, "");
  throw usage(`name ${name}: write letters, digits, \`.\`, \`_\` and \`-\`; the folder is that of the hook's path`);
}

/** Where a fixture goes: below `testsDir`, by the hook's path. `base` names it if the user has not. */
interface Place {
  testsDir: string;
  path: string;
  name: string | undefined;
  base: string;
}

/**
 * Writes a fixture into a file of its own.
 * @returns the file.
 * @throws RouseError `usage` if the file is there already.
 */
export async function writeFixture(content: FixtureFile, { testsDir, path, name, base }: Place): Promise<string> {
  const folder = getFixtureFolder(testsDir, path);
  const file = join(folder, `${name ?? chooseFixtureName(folder, base)}.json5`);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, renderFixture(content), { flag: "wx" }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "EEXIST") throw usage(`${file} is there already: choose another name, or delete it`);
    throw error;
  });
  return file;
}
