import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { RouseError } from "../../core/errors.ts";
import { renderFixture, type FixtureFile } from "./fixture.ts";

const refuse = (message: string): RouseError => new RouseError({ code: "usage", message });

const toFileName = (text: string): string =>
  text.replace(/[^\w.-]+/g, "-").replace(/^[.-]+|[.-]+$/g, "") || "event";

/** The folder for the fixtures of a hook, below `hooks.testsDir`. */
const getFixtureFolder = (testsDir: string, path: string): string =>
  join(testsDir, ...path.split("/").map(toFileName));

/** A name that no file of the folder has: `base`, with a number if needed. */
function chooseFixtureName(folder: string, base: string): string {
  const first = toFileName(base);
  for (let count = 1; ; count++) {
    const name = count === 1 ? first : `${first}-${count}`;
    if (!existsSync(join(folder, `${name}.json5`))) return name;
  }
}

/** @throws RouseError `usage` if a file cannot have this name. */
export function checkFixtureName(name: string): string {
  if (/^\w[\w.-]*$/.test(name)) return name.replace(/\.json5?$/, "");
  throw refuse(
    `the name ${name}: write letters, digits, \`.\`, \`_\` and \`-\`; the folder is that of the hook's path`,
  );
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
export async function writeFixture(
  content: FixtureFile,
  { testsDir, path, name, base }: Place,
): Promise<string> {
  const folder = getFixtureFolder(testsDir, path);
  const file = join(folder, `${name ?? chooseFixtureName(folder, base)}.json5`);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, renderFixture(content), { flag: "wx" }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === "EEXIST")
        throw refuse(`${file} is there already: choose another name, or delete it`);
      throw error;
    },
  );
  return file;
}
